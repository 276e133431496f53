"""CEL rules (`x-kubernetes-validations`) of custom resources.

Rules run only where their value is present. A transition rule (one that names `oldSelf`) runs only when there was a
value before. A rule that cannot be evaluated refuses the object. What breaks a rule but was so before an update may
stay, unless the rule is about the change itself.

Source: `apiextensions-apiserver/pkg/apiserver/schema/cel` for texts and limits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from msgspec import UNSET

from trainshed.kube.cel.program import BUDGET, CALL_LIMIT, OUT_OF_BUDGET, CostExceeded, compiled
from trainshed.kube.cel.types import escape, spellings
from trainshed.kube.cel.values import (
    NONE,
    EvaluationError,
    MapList,
    SetList,
    duration_of,
    present,
    timestamp_of,
)
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import instant, parse_duration
from trainshed.kube.schema.nodes import SchemaNode
from trainshed.kube.schema.structural import list_identity
from trainshed.kube.wire.body import field_path

_QUOTED_FIELD = re.compile(r"\['([^']*)'\]")
_OLD_SELF = re.compile(r"\boldSelf\b")


def evaluate_rules(obj: Object, old: Object | None, schema: SchemaNode) -> list[Cause]:
    """Return the causes of all rules that `obj` breaks; `old` is the object before an update.

    Call it only for objects that pass `structural.validate`: rules assume the declared types.
    """
    if not schema.with_rules:
        return []
    run = _Run()
    before = UNSET if old is None else old
    run.walk(obj, before, schema, "", lambda: old is not None and obj == old)
    return run.found


class _Run:
    """The rules of one request: what they found, and what they may still cost."""

    def __init__(self) -> None:
        self.found: list[Cause] = []
        self._left = BUDGET

    def walk(self, value: Any, old: Any, node: SchemaNode, path: str, same: Callable[[], bool]) -> None:
        """Evaluate the rules of a place and of all below it; `same` says whether it is as it was before."""
        if value is None or not node.with_rules:
            return
        if node.validations:
            self._rules(value, old, node, path, same)
        if self._left < 0:
            return
        if isinstance(value, dict):
            fields = old if isinstance(old, dict) else {}
            for key, item in value.items():
                child = node.properties.get(key) or node.additional
                if child is not None and child.with_rules:
                    before = fields.get(key, UNSET)
                    at = field_path(path, key) if key in node.properties else f"{path}[{key}]"
                    self.walk(item, before, child, at, _same(item, before))
        elif isinstance(value, list) and node.items is not None and node.items.with_rules:
            self._items(value, old, node, path, same)

    def _items(
        self, value: list[Any], old: Any, node: SchemaNode, path: str, same: Callable[[], bool]
    ) -> None:
        # Only items of map lists have an identity over time; rules about change cannot see the others.
        assert node.items is not None
        by_key: dict[str, Any] = {}
        if node.list_type == "map" and isinstance(old, list):
            by_key = {causes.shown(list_identity(item, node)): item for item in old}
        for index, item in enumerate(value):
            before = by_key.get(causes.shown(list_identity(item, node)), UNSET) if by_key else UNSET
            unchanged = same if node.list_type != "map" else _same(item, before)
            self.walk(item, before, node.items, f"{path}[{index}]", unchanged)

    def _rules(self, value: Any, old: Any, node: SchemaNode, path: str, same: Callable[[], bool]) -> None:
        names: dict[str, Any] = {"self": cel_value(value, node)}
        for rule in node.validations:
            if self._left <= 0:
                self._stop(_invalid(path, node, OUT_OF_BUDGET))
                return
            text = rule.get("rule", "")
            if not text.strip():
                continue
            transition = _OLD_SELF.search(text) is not None
            optional = bool(rule.get("optionalOldSelf"))
            if transition and old is UNSET and not optional:
                continue
            if transition:
                before = None if old is UNSET else cel_value(old, node)
                names["oldSelf"] = (NONE if old is UNSET else present(before)) if optional else before
            if not self._holds(rule, names, node, path):
                if self._left < 0:
                    return
                cause = self._refusal(rule, names, node, path)
                if transition or not same():
                    self.found.append(cause)

    def _holds(self, rule: Mapping[str, Any], names: Mapping[str, Any], node: SchemaNode, path: str) -> bool:
        """Return whether a rule holds; one that says so itself, in `found`, counts as one that does."""
        text = rule.get("rule", "")
        shown = rule.get("message") or text.strip()
        try:
            holds, cost = compiled(text).run(names, min(CALL_LIMIT, self._left))
        except CostExceeded as error:
            why = (
                f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule"
            )
            dear = self._left >= CALL_LIMIT
            self._stop(_invalid(path, node, f"{why}: {shown}" if dear else OUT_OF_BUDGET))
            return False
        except EvaluationError as error:
            said = f"{error} evaluating rule: {shown}"
            if str(error).startswith("no such overload"):
                why = (
                    "call arguments did not match a supported operator, function or macro signature for rule"
                )
                said = f"'{error}': {why}: {shown}"
            self.found.append(_invalid(path, node, said))
            return True
        except ValueError as error:
            self.found.append(_invalid(path, node, f"rule compile error: compilation failed: {error}"))
            return True
        self._left -= cost
        return holds is True

    def _stop(self, cause: Cause) -> None:
        self.found.append(cause)
        self._left = -1

    def _refusal(
        self, rule: Mapping[str, Any], names: Mapping[str, Any], node: SchemaNode, path: str
    ) -> Cause:
        message = (rule.get("message") or "").strip() or f"failed rule: {rule.get('rule', '').strip()}"
        expression = rule.get("messageExpression")
        if expression:
            try:
                computed, cost = compiled(expression).run(names)
                self._left -= cost
            except ValueError:
                computed = None  # the fixed message stands
            if isinstance(computed, str) and computed.strip() and "\n" not in computed:
                message = computed.strip()
        where = path + _QUOTED_FIELD.sub(r".\1", rule.get("fieldPath") or "")
        where = where if path else where.lstrip(".") or causes.ROOT
        match rule.get("reason"):
            case "FieldValueForbidden":
                return causes.forbidden(where, message)
            case "FieldValueRequired":
                return causes.required(where, message)
            case "FieldValueDuplicate":
                return causes.duplicate(where, node.type)
            case _:
                return causes.invalid(where, node.type, message)


def _invalid(path: str, node: SchemaNode, detail: str) -> Cause:
    # A rule may be about anything below its place: what is shown of that is its type.
    return causes.invalid(path or causes.ROOT, node.type, detail)


def _same(value: Any, old: Any) -> Callable[[], bool]:
    return lambda: old is not UNSET and bool(value == old)


# ---------------------------------------------------------------------------------------------- values


def cel_value(value: Any, node: SchemaNode) -> Any:
    """Return a JSON value as a rule sees it: times, durations, bytes and lists get CEL types from the schema."""
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                seen = cel_value(item, child)
                for spelled in spellings(key):
                    out[spelled] = seen
            elif node.additional is not None:
                out[key] = cel_value(item, node.additional)
            else:
                out[key] = item
        return out
    if isinstance(value, list):
        return _list(value, node)
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


def _list(value: list[Any], node: SchemaNode) -> list[Any]:
    items = value if node.items is None else [cel_value(item, node.items) for item in value]
    if node.list_type == "set":
        return SetList(items)
    if node.list_type == "map":
        out = MapList(items)
        out.keys = tuple(escape(key) for key in node.list_map_keys)
        return out
    return items


def _from_text(value: str, form: str) -> Any:
    if form == "date-time":
        return timestamp_of(instant(value))
    if form == "date":
        return timestamp_of(instant(value).replace(tzinfo=UTC))
    if form == "byte":
        return base64.b64decode(value)
    if form == "duration":
        return duration_of(parse_duration(value))
    return value
