"""CEL rules (`x-kubernetes-validations`) of custom resources.

The engine is the native module of the distribution common-expression-language. It is loaded when the first
rule needs it, and without its package's command line, which would cost 25 MB of memory for nothing. The two
commonest rules, `self == oldSelf` and `self in ['a', 'b']`, are answered without any engine.

Rules run only where their value is present. A transition rule (one that names `oldSelf`) runs only when there
was a value before. A rule that cannot be evaluated refuses the object, as upstream.

Known limits: optional syntax (`self.?a`), the libraries for URLs, IP addresses, formats and quantities.
"""

from __future__ import annotations

import base64
import functools
import importlib.machinery
import importlib.util
import itertools
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

from msgspec import UNSET

from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.cel.types import escape
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import instant, parse_duration
from trainshed.kube.schema.cel_cost import MAX_RULE_STEPS, MAX_STEPS, steps
from trainshed.kube.schema.nodes import SchemaNode
from trainshed.kube.schema.structural import list_identity
from trainshed.kube.wire.body import field_path

_OLD_SELF = re.compile(r"\boldSelf\b")
_TEXT = r"(?:'[^'\\]*'|\"[^\"\\]*\")"
_ANY_TEXT = re.compile(r"[rR]?(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')")
_MEMBER = re.compile(rf"\s*self\s+in\s+\[\s*({_TEXT}(?:\s*,\s*{_TEXT})*)\s*\]\s*")
_UNCHANGED = re.compile(r"\s*(self\s*==\s*oldSelf|oldSelf\s*==\s*self)\s*")


def evaluate_rules(obj: Object, old: Object | None, schema: SchemaNode) -> list[Cause]:
    """Return the causes of all rules that `obj` breaks; `old` is the object before an update.

    Call it only for objects that pass `structural.validate`: rules assume the declared types.
    """
    found: list[Cause] = []
    if schema.with_rules:
        _walk(obj, UNSET if old is None else old, schema, "", found, _Budget())
    return found


def syntax_error(expression: str) -> str:
    """Return what is wrong with the syntax of an expression, empty when nothing is known to be."""
    bare = _ANY_TEXT.sub("''", expression)
    if not expression.strip():
        return "compilation failed: ERROR: <input>:1:1: the expression is empty"
    if ".?" in bare or "[?" in bare:
        return ""
    try:
        _program(expression)
    except ValueError as error:
        shown = str(error)
        return f"compilation failed: {shown[shown.find('ERROR') :].partition(chr(10))[0]}"
    return ""


class _Budget:
    """The steps that are left to a request; none are once a rule was too costly."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def refusal(self, rule: str, path: str, *values: Any) -> Cause | None:
        """Pay for a rule; return the cause when it, or all together, cost too much."""
        cost = steps(rule, *(value for value in values if value is not UNSET))
        self.left -= cost
        if cost > MAX_RULE_STEPS:
            self.left = 0
            text = f"'{rule.strip()}': no further validation rules will be run due to call cost exceeds limit for rule"
            return causes.invalid_text(path, f"{text}: {rule.strip()}")
        if self.left < 0:
            self.left = 0
            text = (
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            return causes.invalid_text(path, text)
        return None


def _walk(value: Any, old: Any, node: SchemaNode, path: str, found: list[Cause], budget: _Budget) -> None:
    if value is None or not node.with_rules:
        return
    for rule in node.validations:
        if not budget.left:
            return
        cause = _broken(rule, value, old, node, path, budget)
        if cause is not None:
            found.append(cause)
    if isinstance(value, dict):
        fields = old if isinstance(old, dict) else {}
        for key, item in value.items():
            child = node.properties.get(key) or node.additional
            if child is not None and child.with_rules:
                _walk(item, fields.get(key, UNSET), child, field_path(path, key), found, budget)
    elif isinstance(value, list) and node.items is not None and node.items.with_rules:
        # Only items of map lists have an identity over time; rules about change cannot see the others.
        by_key: dict[str, Any] = {}
        if node.list_type == "map" and isinstance(old, list):
            by_key = {causes.shown(list_identity(item, node)): item for item in old}
        for index, item in enumerate(value):
            before = by_key.get(causes.shown(list_identity(item, node)), UNSET) if by_key else UNSET
            _walk(item, before, node.items, f"{path}[{index}]", found, budget)


def _broken(
    rule: Mapping[str, Any], value: Any, old: Any, node: SchemaNode, path: str, budget: _Budget
) -> Cause | None:
    text = rule.get("rule", "")
    transition = _OLD_SELF.search(text) is not None
    if transition and old is UNSET and not rule.get("optionalOldSelf"):
        return None
    if _UNCHANGED.fullmatch(text) and not rule.get("optionalOldSelf"):
        holds = value == old
    elif (member := _MEMBER.fullmatch(text)) is not None:
        holds = value in [quoted[1:-1] for quoted in re.findall(_TEXT, member[1])]
    else:
        refusal = budget.refusal(text, path, value, old if transition else UNSET)
        if refusal is not None:
            return refusal
        variables = {"self": cel_value(value, node)}
        if rule.get("optionalOldSelf"):
            optional = _engine().OptionalValue
            variables["oldSelf"] = optional.none() if old is UNSET else optional.of(cel_value(old, node))
        elif transition:
            variables["oldSelf"] = cel_value(old, node)
        try:
            holds = _evaluate(text, variables) is True
        except _RuleError as error:
            return causes.invalid_text(
                path, f"{error} evaluating rule: {rule.get('message') or text.strip()}"
            )
    return None if holds else _refusal(rule, value, node, path)


def _refusal(rule: Mapping[str, Any], value: Any, node: SchemaNode, path: str) -> Cause:
    message = (rule.get("message") or "").strip()
    expression = rule.get("messageExpression")
    if expression and steps(expression, value) <= MAX_RULE_STEPS:
        try:
            computed = _evaluate(expression, {"self": cel_value(value, node)})
        except _RuleError:
            computed = None  # upstream falls back to the fixed message as well
        if isinstance(computed, str) and computed.strip():
            message = computed.strip()
    message = message or f"failed rule: {rule.get('rule', '').strip()}"
    where = path + (rule.get("fieldPath") or "")
    where = where if path else where.lstrip(".")
    match rule.get("reason"):
        case "FieldValueForbidden":
            return causes.forbidden(where, message)
        case "FieldValueRequired":
            return causes.required(where, message)
        case "FieldValueDuplicate":
            return causes.duplicate(where, value)
        case _:
            return causes.invalid_text(where, message)


# ---------------------------------------------------------------------------------------------- values


def cel_value(value: Any, node: SchemaNode) -> Any:
    """Return a JSON value as a rule sees it: times, durations and bytes get CEL types from the schema."""
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                out[escape(key)] = cel_value(item, child)
            elif node.additional is not None:
                out[key] = cel_value(item, node.additional)
            else:
                out[key] = item
        return out
    if isinstance(value, list):
        items = node.items
        return value if items is None else [cel_value(item, items) for item in value]
    if isinstance(value, str):
        if node.builtin or not node.format:
            return value
        try:
            return _from_text(value, node.format)
        except ValueError:
            return value
    if node.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _from_text(value: str, form: str) -> Any:
    if form == "date-time":
        return instant(value)
    if form == "date":
        return instant(value).replace(tzinfo=UTC)
    if form == "byte":
        return base64.b64decode(value)
    if form == "duration":
        return parse_duration(value)
    return value


# ---------------------------------------------------------------------------------------------- engine


class _RuleError(Exception):
    """A rule that could not be evaluated."""


@functools.cache
def _engine() -> Any:
    """Return the native module; its package's `__init__` imports a command line that nobody needs here."""
    spec = importlib.util.find_spec("cel")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = Path(folder) / f"cel{suffix}"
            if file.exists():
                native = importlib.util.spec_from_file_location("cel.cel", file)
                assert native is not None and native.loader is not None
                module = importlib.util.module_from_spec(native)
                native.loader.exec_module(module)
                return module
    raise LookupError("the distribution common-expression-language is not installed")


@functools.lru_cache(maxsize=512)
def _program(rule: str) -> Any:
    return _engine().compile(rule)


def _evaluate(rule: str, variables: dict[str, Any]) -> Any:
    try:
        return _program(rule).execute(_engine().Context(variables, dict(_FUNCTIONS)))
    except KeyError as error:
        raise _RuleError(f"no such key: {error.args[0] if error.args else ''}") from error
    except BaseException as error:
        # A panic of the native module arrives as a BaseException; it must not take the server down.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise _RuleError(str(error).partition("\n")[0]) from error
        raise


def run(expression: str, variables: dict[str, Any]) -> Any:
    """Return the value of an expression, e.g. of a match condition; ValueError says why there is none."""
    cost = steps(expression, *variables.values())
    if cost > MAX_RULE_STEPS:
        raise ValueError("call cost exceeds limit")
    try:
        return _evaluate(expression, variables)
    except _RuleError as error:
        raise ValueError(str(error)) from error


def evaluate(expression: str) -> Any:
    """Return the value of an expression without variables; ValueError says why there is none."""
    try:
        return _evaluate(expression, {})
    except _RuleError as error:
        raise ValueError(str(error)) from error


def _substring(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= (len(text) if end is None else end) <= len(text):
        raise ValueError("index out of range")
    return text[start:end]


def _index_of(where: Any, what: Any) -> int:
    return where.find(what) if isinstance(where, str) else where.index(what) if what in where else -1


# The engine has the CEL standard; these are upstream's string, list and regex libraries. A receiver is the
# first argument.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lowerAscii": lambda text: text.lower() if text.isascii() else text,
    "upperAscii": lambda text: text.upper() if text.isascii() else text,
    "trim": lambda text: text.strip(),
    "replace": lambda text, old, new, count=-1: text.replace(old, new, count),
    "split": lambda text, separator, count=-1: text.split(separator, count - 1 if count > 0 else -1),
    "substring": _substring,
    "charAt": lambda text, index: text[index : index + 1],
    "indexOf": _index_of,
    "lastIndexOf": lambda text, what: text.rfind(what),
    "join": lambda items, separator="": separator.join(items),
    "find": lambda text, pattern: compile_re2(pattern).find(text),
    "findAll": lambda text, pattern: list(compile_re2(pattern).find_all(text)),
    "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
    "sum": lambda items: sum(items),
    "min": lambda *items: min(items[0] if isinstance(items[0], list) else items),
    "max": lambda *items: max(items[0] if isinstance(items[0], list) else items),
}
