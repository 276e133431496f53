"""Label selectors, as query parameters and as objects; field selectors are in `fieldselectors`.

Grammar: API concepts, "Labels and Selectors". The messages are what kubectl users search for, so they are upstream's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.fieldselectors import FieldSelector, Getter
from trainshed.kube.meta.objects import section

__all__ = ["FieldSelector", "Getter", "LabelSelector", "Requirement"]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label: `operator` is in, notin, exists, !, > or <; equality is `in` with one value."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` satisfy this requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        wanted = int(self.values[0])
        return int(value) > wanted if self.operator == ">" else int(value) < wanted

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin" as operator if len(self.values) == 1:
                return f"{self.key}{'=' if operator == 'in' else '!='}{self.values[0]}"
            case "in" | "notin" as operator:
                return f"{self.key} {operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


class LabelSelector(msgspec.Struct, frozen=True):
    """Requirements that must all hold. Without any it matches everything, unless `nothing` is set."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Return the selector of a `labelSelector` query parameter.

        Raises:
            ApiError: 400 saying what was found and what was expected.
        """
        return _parse(text)

    @classmethod
    def from_object(cls, selector: Mapping[str, Any] | None) -> Self:
        """Return the selector of a LabelSelector object: None matches nothing, an empty one everything.

        Raises:
            ApiError: 400 for an unknown operator or values that do not fit it.
        """
        if selector is None:
            return cls(nothing=True)
        requirements = [Requirement(k, "in", (v,)) for k, v in section(selector, "matchLabels").items()]
        for expression in selector.get("matchExpressions") or ():
            operator, values = expression.get("operator"), tuple(sorted(expression.get("values") or ()))
            name = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}.get(operator)
            if name is None:
                raise bad_request(f'"{operator}" is not a valid label selector operator')
            requirements.append(_checked(expression.get("key", ""), name, values))
        return cls(tuple(sorted(requirements, key=lambda r: r.key)))

    @classmethod
    def from_labels(cls, labels: Mapping[str, str] | None) -> Self:
        """Return the selector of a plain label map such as a Service's: none or an empty map matches nothing."""
        if not labels:
            return cls(nothing=True)
        return cls(tuple(Requirement(key, "in", (labels[key],)) for key in sorted(labels)))

    @property
    def everything(self) -> bool:
        """Whether all objects match, so that callers may skip matching."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether an object with these `labels` is selected."""
        found = labels or {}
        return not self.nothing and all(requirement.matches(found) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the query form; parsing it gives this selector again (`nothing` has no query form)."""
        return ",".join(map(str, self.requirements))


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> LabelSelector:
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while True:
        found = tokens.peek()
        if not found:
            break
        if found in _SYMBOLS and found != "!":
            raise _refused(found, "!, identifier, or 'end of string'")
        try:
            requirements.append(_requirement(tokens))
        except ValueError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        found = tokens.take()
        if not found:
            break
        if found != ",":
            raise _refused(found, "',' or 'end of string'")
        if tokens.peek() in _SYMBOLS and tokens.peek() != "!":
            raise _refused(tokens.peek(), "identifier after ','")
    return LabelSelector(tuple(requirements))


def _refused(found: str, expected: str) -> Exception:
    return bad_request(f"found '{found}', expected: {expected}")


class _Tokens:
    """The tokens of a selector; the end is an empty token, for ever."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token


def _requirement(tokens: _Tokens) -> Requirement:
    key = tokens.take()
    negated = key == "!"
    if negated:
        key = tokens.take()
    if key in _SYMBOLS:
        raise ValueError(f"found '{key}', expected: identifier")
    _check_key(key)
    if negated:
        return Requirement(key, "!")
    if tokens.peek() in ("", ","):
        return Requirement(key, "exists")
    match tokens.take():
        case "=" | "==":
            return _checked(key, "in", (_exact(tokens),))
        case "!=":
            return _checked(key, "notin", (_exact(tokens),))
        case ">" | "<" as comparison:
            return _checked(key, comparison, (_exact(tokens),))
        case "in" | "notin" as operator:
            return _checked(key, operator, _values(tokens))
        case found:
            raise ValueError(f"found '{found}', expected: {', '.join(_BINARY)}")


def _exact(tokens: _Tokens) -> str:
    if tokens.peek() in ("", ","):
        return ""
    value = tokens.take()
    if value in _SYMBOLS:
        raise ValueError(f"found '{value}', expected: identifier")
    return value


def _values(tokens: _Tokens) -> tuple[str, ...]:
    """Return the set after in/notin; an empty place between commas is the empty value."""
    found = tokens.take()
    if found != "(":
        raise ValueError(f"found '{found}' expected: '('")
    if tokens.peek() == ")":
        tokens.take()
        return ()
    if tokens.peek() != "," and tokens.peek() in _SYMBOLS:
        raise ValueError(f"found '{tokens.peek()}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        if tokens.peek() in (",", ")"):
            values.add("")
        else:
            value = tokens.take()
            if value in _SYMBOLS:
                raise ValueError(f"found '{value}', expected: ',', or identifier")
            values.add(value)
        match tokens.take():
            case ")":
                return tuple(sorted(values))
            case ",":
                continue
            case found:
                raise ValueError(f"found '{found}', expected: ',' or ')'")


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if operator in ("in", "notin") and not values:
        raise _invalid("values", "[]", "for 'in', 'notin' operators, values set can't be empty")
    if operator in (">", "<") and not _INTEGER.fullmatch(values[0]):
        raise _invalid(
            "values[0]", f'"{values[0]}"', "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for i, value in enumerate(values):
        if len(value) > 63:
            raise _invalid(f"values[{i}][{key}]", f'"{value}"', "must be no more than 63 characters")
        if value and not _NAME.fullmatch(value):
            raise _invalid(f"values[{i}][{key}]", f'"{value}"', _VALUE_RULE)
    return Requirement(key, operator, values)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        rule = "prefix part must be a lowercase RFC 1123 subdomain of at most 253 characters"
        raise _invalid("key", f'"{key}"', rule)
    if len(name) > 63:
        raise _invalid("key", f'"{key}"', "name part must be no more than 63 characters")
    if not _NAME.fullmatch(name):
        raise _invalid("key", f'"{key}"', f"name part {_NAME_RULE}")


def _invalid(field: str, value: str, rule: str) -> ValueError:
    return ValueError(f"{field}: Invalid value: {value}: {rule}")
