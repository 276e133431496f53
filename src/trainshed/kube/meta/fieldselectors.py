"""Field selectors: parsing them, reading the fields that they name, and matching.

Which fields a built-in kind has besides these two is in its declaration (`kube.builtin`).

Source: API concepts, "Field Selectors".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from trainshed.kube.meta import jsonpath
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object

Getter: TypeAlias = Callable[[Object], str]
"""Returns a field's value as text; empty when it is absent."""


class FieldSelector(msgspec.Struct, frozen=True):
    """`(field, equal, value)` conditions that must all hold; without any it matches everything."""

    requirements: tuple[tuple[str, bool, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""Return the selector of a `fieldSelector` query parameter; `\,`, `\=` and `\\` stand for themselves.

        Raises:
            ApiError: 400 for a term without an operator.
        """
        return _parse_fields(text)

    def check(self, fields: Mapping[str, Getter], *, builtin: bool) -> None:
        """Raise 400 when a field is not among `fields`, the selectable ones of a built-in or custom kind."""
        for name, _, _ in self.requirements:
            if name in fields:
                continue
            if builtin and fields.keys() == METADATA.keys():
                known = ", ".join(f'"{field}"' for field in METADATA)
                raise bad_request(f'"{name}" is not a known field selector: only {known}')
            raise bad_request(f"field label not supported: {name}")

    def matches(self, obj: Object, lookup: Mapping[str, Getter]) -> bool:
        """Return whether `obj` is selected; `lookup` has the selectable fields of its kind.

        Raises:
            KeyError: a field that `lookup` does not know; call `check` first.
        """
        return all((lookup[name](obj) == value) is equal for name, equal, value in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the value that `field` must equal, None when it is not required: lets callers use an index."""
        for name, equal, value in self.requirements:
            if equal and name == field:
                return value
        return None


_TERM = re.compile(r"(?P<name>[^=!]*?)\s*(?P<operator>!=|==|=)(?P<value>(?:\\.|[^\\])*)", re.DOTALL)
_FIELD_TERMS = re.compile(r"(?:\\.|[^,\\])+", re.DOTALL)
_FIELD_ESCAPE = re.compile(r"\\([,=\\])")


@functools.lru_cache(maxsize=1024)
def _parse_fields(text: str) -> FieldSelector:
    requirements: list[tuple[str, bool, str]] = []
    for term in _FIELD_TERMS.findall(text):
        match = _TERM.fullmatch(term.strip())
        if match is None or not match["name"]:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = match["value"]
        if re.search(r"\\(?![,=\\])", value.replace("\\\\", "")):
            raise bad_request(f"invalid field selector: invalid escape sequence in '{term}'")
        requirements.append((match["name"], match["operator"] != "!=", _FIELD_ESCAPE.sub(r"\1", value)))
    return FieldSelector(tuple(requirements))


def path(*names: str, absent: str = "") -> Getter:
    """Return a getter of nested maps; booleans read `true`/`false`, as Go prints them."""

    def get(obj: Object) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                return absent
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return get


def paths(*fields: str) -> dict[str, Getter]:
    """Return the getters of fields that are named by their dotted paths."""
    return {field: path(*field.split(".")) for field in fields}


def either(one: Getter, other: Getter) -> Getter:
    """Return a getter of the first of two fields that is not empty."""
    return lambda obj: one(obj) or other(obj)


def custom(selectable: Iterable[str]) -> dict[str, Getter]:
    """Return the getters of a custom resource's `selectableFields`, given as JSON paths such as `.spec.color`."""
    return {text.removeprefix("."): path(*jsonpath.field_names(text)) for text in selectable}


METADATA = paths("metadata.name", "metadata.namespace")
"""The fields that every kind has."""
