"""What is wrong with the CEL rules of a CRD: their words, types, costs, and what they may compare with.

Source of rules, limits and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.cel.check import Checked, check
from trainshed.kube.cel.constants import NotInstantiable
from trainshed.kube.cel.types import MAX_REQUEST_BYTES, UNBOUNDED, Type, declared, named
from trainshed.kube.cel.wording import syntax_error
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import Cause
from trainshed.kube.schema.crd_structural import cannot_be
from trainshed.kube.schema.fieldpaths import field_schema

MAX_COST = 10_000_000
"""Of one rule for all values that it may have to look at in one object."""
MAX_TOTAL_COST = 100_000_000
"""Of all rules of a schema."""
MAX_RULE_CHARACTERS = 100_000

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def wording_causes(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the rules of one place but for their expressions."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            yield causes.required(f"{at}.rule", "rule is not specified")
        elif message and not message.strip():
            yield causes.invalid(f"{at}.message", message, "message must be non-empty if specified")
        elif _has_line_breaks(message.strip()):
            yield causes.invalid(f"{at}.message", message, "message must not contain line breaks")
        elif _has_line_breaks(text) and not message:
            text = "message must be specified if rule contains line breaks"
            yield causes.required(f"{at}.message", text)
        expression, field = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
        if expression and not expression.strip():
            text = "messageExpression must be non-empty if specified"
            yield causes.required(f"{at}.messageExpression", text)
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield causes.unsupported(f"{at}.reason", rule["reason"], _REASONS)
        if field and not field.strip():
            yield causes.invalid(f"{at}.fieldPath", field, "fieldPath must be non-empty if specified")
        if _has_line_breaks(field):
            yield causes.invalid(f"{at}.fieldPath", field, "fieldPath must not contain line breaks")
        if field and not _is_field(schema, field):
            yield causes.invalid(f"{at}.fieldPath", field, "fieldPath must be a valid path")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _is_field(schema: Mapping[str, Any], path: str) -> bool:
    if cannot_be(schema):  # of which the schema is told
        return True
    try:
        field_schema(path, schema)
    except ValueError:
        return False
    return True


class Costs:
    """What the rules of a schema cost together, and which cost most."""

    def __init__(self) -> None:
        self._total = 0
        self._dearest: list[tuple[int, str]] = []

    def add(self, cost: int, at: str) -> None:
        self._total = min(self._total + cost, UNBOUNDED)
        if cost >= MAX_TOTAL_COST // 100:
            self._dearest = sorted([*self._dearest, (-cost, at)])[:4]

    def causes(self, path: str) -> Iterator[Cause]:
        if self._total <= MAX_TOTAL_COST:
            return
        for _, at in self._dearest:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield causes.forbidden(at, text)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield causes.forbidden(path, _too_dear(what, self._total, MAX_TOTAL_COST))


class RuleContext:
    """Where a place is, for the costs of its rules: how often it can be there in an object."""

    def __init__(self, costs: Costs, *, root: bool, count: int | None) -> None:
        self.costs, self._root, self.count = costs, root, count

    @classmethod
    def root(cls) -> RuleContext:
        """Return that of a whole schema."""
        return cls(Costs(), root=True, count=1)

    def below(self, schema: Mapping[str, Any], child: Mapping[str, Any]) -> RuleContext:
        """Return that of a part of a schema."""
        most: int | None = 1
        if schema.get("type") == "array":
            most = schema.get("maxItems")
        elif schema.get("additionalProperties") is not None:
            most = schema.get("maxProperties")
        count = None if self.count is None or most is None else self.count * max(most, 0)
        return RuleContext(self.costs, root=bool(child.get("x-kubernetes-embedded-resource")), count=count)

    def type_of(self, schema: Mapping[str, Any]) -> Type | None:
        """Return what rules of a place see; None where it cannot be told."""
        own = declared(schema, root=self._root)
        return None if own is None else named(own, "object")


def place_causes(
    schema: Mapping[str, Any], path: str, context: RuleContext, uncorrelated: str
) -> Iterator[Cause]:
    """Yield what is wrong with the expressions of one place of a structural schema.

    `uncorrelated` is the path of the first place above that cannot be told from its old state.
    """
    own = context.type_of(schema)
    if own is None:
        text = (
            "Internal error: internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations"
        )
        yield Cause("InternalError", text, f"{path}.x-kubernetes-validations")
        return
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        yield from _rule(rule, own, f"{path}.x-kubernetes-validations[{index}]", context, uncorrelated)


def uncompiled(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield the rules that have something wrong with their expressions, where a value has them be evaluated."""
    rules = schema.get("x-kubernetes-validations") or ()
    own = declared(schema, root=False) if rules and value is not None else None
    for rule in rules:
        if own is None:
            break
        _, why = _compiled(rule, named(own, "object")) if rule["rule"].strip() else (None, "")
        if why:
            yield causes.invalid(path, schema.get("type"), f"rule compile error: {why}")
    if isinstance(value, Mapping):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                yield from uncompiled(item, properties[name], f"{path}.{name}")
            elif isinstance(additional, Mapping):
                yield from uncompiled(item, additional, f"{path}[{name}]")
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from uncompiled(item, schema["items"], f"{path}[{index}]")


def _variables(rule: Mapping[str, Any], own: Type) -> dict[str, Type]:
    return {"self": own, "oldSelf": Type("optional", own.size, own) if rule.get("optionalOldSelf") else own}


def _compiled(rule: Mapping[str, Any], own: Type) -> tuple[Checked | None, str]:
    """Return what a rule comes to and what is wrong with it; neither where it cannot be told."""
    try:
        found = _checked(rule["rule"], _variables(rule, own))
    except NotInstantiable as error:
        return None, str(error)
    except ValueError as error:
        return None, f"compilation failed: {error}"
    if found is not None and found.type.kind != "bool":
        return found, "cel expression must evaluate to a bool"
    return found, ""


def _rule(
    rule: Mapping[str, Any], own: Type, at: str, context: RuleContext, uncorrelated: str
) -> Iterator[Cause]:
    found, why = _compiled(rule, own)
    if why:
        yield causes.invalid_shown(f"{at}.rule", _shown(rule), why)
        yield from _no_old_self(rule, at)
    if why or found is None:
        return
    count = MAX_REQUEST_BYTES // (own.minimum + 1) if context.count is None else context.count
    cost = min(found.cost * count, UNBOUNDED)
    if cost > MAX_COST:
        yield causes.forbidden(f"{at}.rule", _too_dear("estimated rule cost", cost, MAX_COST))
    context.costs.add(cost, f"{at}.rule")
    if rule.get("messageExpression"):
        yield from _message(rule, _variables(rule, own), f"{at}.messageExpression", context)
    if "oldSelf" not in found.names:
        yield from _no_old_self(rule, at)
    elif uncorrelated:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        yield causes.invalid(f"{at}.rule", rule["rule"], why)


def _no_old_self(rule: Mapping[str, Any], at: str) -> Iterator[Cause]:
    if rule.get("optionalOldSelf") is not None:
        why = "may not be set if oldSelf is not used in rule"
        yield causes.invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], why)


def _shown(rule: Mapping[str, Any]) -> str:
    """Return a rule as Go prints it; of what it points to, Go would show where that is."""
    names = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression"}
    texts = ", ".join(f"{name}:{golang.text(rule.get(field))}" for name, field in names.items())
    reason, optional = (
        "nil" if rule.get(key) is None else "0xc000000000" for key in ("reason", "optionalOldSelf")
    )
    return (
        f"apiextensions.ValidationRule{{{texts}, Reason:(*apiextensions.FieldValueErrorReason)({reason}),"
        f" FieldPath:{golang.text(rule.get('fieldPath'))}, OptionalOldSelf:(*bool)({optional})}}"
    )


def _message(
    rule: Mapping[str, Any], variables: Mapping[str, Type], at: str, context: RuleContext
) -> Iterator[Cause]:
    expression = rule["messageExpression"]
    try:
        found = _checked(expression, variables)
    except ValueError as error:
        yield causes.invalid_shown(at, _shown(rule), f"messageExpression compilation failed: {error}")
        return
    if found is None:
        return
    if found.type.kind != "string":
        yield causes.invalid_shown(at, _shown(rule), "messageExpression must evaluate to a string")
        return
    if found.cost > MAX_COST:
        yield causes.forbidden(at, _too_dear("estimated messageExpression cost", found.cost, MAX_COST))
    context.costs.add(found.cost, at)


def _checked(expression: str, variables: Mapping[str, Type]) -> Checked | None:
    """Return what an expression comes to, None where that cannot be told; ValueError says what is wrong."""
    if len(expression) > MAX_RULE_CHARACTERS:
        limit = f"size: {len(expression)}, limit {MAX_RULE_CHARACTERS}"
        raise ValueError(f"ERROR: <input>:-1:0: expression code point size exceeds limit: {limit}")
    try:
        return check(expression, variables)
    except SyntaxError as error:
        said = syntax_error(expression).removeprefix("compilation failed: ")
        raise ValueError(said or f"ERROR: <input>: Syntax error: {error}") from error
    except RecursionError:
        return None


def _too_dear(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    hint = "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings"
    return f"{what} exceeds budget by factor of {shown} ({hint} are declared)"
