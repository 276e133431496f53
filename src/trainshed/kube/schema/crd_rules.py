"""What is wrong with the CEL rules of a CRD: their words, types, costs, and what they may compare with.

Source of rules, limits and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.cel.check import Checked, check
from trainshed.kube.cel.constants import NotInstantiable
from trainshed.kube.cel.types import MAX_REQUEST_BYTES, UNBOUNDED, Type, declared
from trainshed.kube.cel.wording import syntax_error
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import Cause

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
            yield causes.invalid(f"{at}.message", message, "must be non-empty if specified")
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
            yield causes.invalid(f"{at}.fieldPath", field, "must be non-empty if specified")
        if field and not _is_field(schema, field):
            yield causes.invalid(f"{at}.fieldPath", field, "fieldPath must be a valid path")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _is_field(schema: Mapping[str, Any], path: str) -> bool:
    """Return whether a path such as `.a.b` or `.a['b']` leads to a declared field."""
    rest: str = path
    place: Any = schema
    while rest:
        if rest.startswith("['"):
            name, closed, rest = rest[2:].partition("']")
            if not closed:
                return False
        elif rest.startswith("."):
            end = min((at for at in (rest.find(".", 1), rest.find("[", 1)) if at > 0), default=len(rest))
            name, rest = rest[1:end], rest[end:]
        else:
            return False
        additional = place.get("additionalProperties")
        place = (place.get("properties") or {}).get(name) or (
            additional if isinstance(additional, Mapping) else None
        )
        if place is None:
            return False
    return True


def rule_causes(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the expressions of a schema that is structural."""
    costs = _Costs()
    yield from _place(schema, path, _Context(costs, root=True, count=1, uncorrelated=""))
    yield from costs.causes(path)


class _Costs:
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


class _Context:
    """Where a place is: how often it can be there in an object, and what cannot be told from its old state."""

    def __init__(self, costs: _Costs, *, root: bool, count: int | None, uncorrelated: str) -> None:
        self.costs, self.root, self.count, self.uncorrelated = costs, root, count, uncorrelated

    def below(self, schema: Mapping[str, Any], child: Mapping[str, Any], uncorrelated: str) -> _Context:
        most: int | None = 1
        if schema.get("type") == "array":
            most = schema.get("maxItems")
        elif schema.get("additionalProperties") is not None:
            most = schema.get("maxProperties")
        count = None if self.count is None or most is None else self.count * max(most, 0)
        return _Context(
            self.costs,
            root=bool(child.get("x-kubernetes-embedded-resource")),
            count=count,
            uncorrelated=self.uncorrelated or uncorrelated,
        )


def _place(schema: Mapping[str, Any], path: str, context: _Context) -> Iterator[Cause]:
    rules = schema.get("x-kubernetes-validations") or ()
    if rules:
        own = declared(schema, root=context.root)
        if own is None:
            text = (
                "Internal error: internal error: failed to construct type information for x-kubernetes-validations "
                "rules: unable to convert structural schema to CEL declarations"
            )
            yield Cause("InternalError", text, f"{path}.x-kubernetes-validations")
        else:
            for index, rule in enumerate(rules):
                yield from _rule(rule, own, f"{path}.x-kubernetes-validations[{index}]", context)
    apart = path if schema.get("x-kubernetes-map-type") == "atomic" else ""
    for name, child in (schema.get("properties") or {}).items():
        yield from _place(child, f"{path}.properties[{name}]", context.below(schema, child, apart))
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, Mapping):
        below = context.below(schema, additional, "")
        yield from _place(additional, f"{path}.additionalProperties", below)
    if isinstance(items, Mapping):
        apart = "" if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _place(items, f"{path}.items", context.below(schema, items, apart))


def _rule(rule: Mapping[str, Any], own: Type, at: str, context: _Context) -> Iterator[Cause]:
    text = rule["rule"]
    old = Type("optional", own.size, own) if rule.get("optionalOldSelf") else own
    variables = {"self": own, "oldSelf": old}
    try:
        found = _checked(text, variables)
    except NotInstantiable as error:
        yield causes.invalid_shown(f"{at}.rule", _shown(rule), str(error))
        return
    except ValueError as error:
        yield causes.invalid_shown(f"{at}.rule", _shown(rule), f"compilation failed: {error}")
        return
    if found is None:
        return
    if found.type.kind != "bool":
        yield causes.invalid_shown(f"{at}.rule", _shown(rule), "cel expression must evaluate to a bool")
        return
    count = MAX_REQUEST_BYTES // (own.minimum + 1) if context.count is None else context.count
    cost = min(found.cost * count, UNBOUNDED)
    if cost > MAX_COST:
        yield causes.forbidden(f"{at}.rule", _too_dear("estimated rule cost", cost, MAX_COST))
    context.costs.add(cost, f"{at}.rule")
    if rule.get("messageExpression"):
        yield from _message(rule, variables, f"{at}.messageExpression", context)
    if "oldSelf" in found.names:
        if context.uncorrelated:
            why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {context.uncorrelated}"
            yield causes.invalid(f"{at}.rule", text, why)
    elif rule.get("optionalOldSelf") is not None:
        why = "may not be set if oldSelf is not used in rule"
        yield causes.invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], why)


def _shown(rule: Mapping[str, Any]) -> str:
    """Return a rule as Go prints it; pointers, of which only the address would be seen, as if there were none."""
    names = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression"}
    texts = ", ".join(f"{name}:{golang.text(rule.get(field))}" for name, field in names.items())
    return (
        f"apiextensions.ValidationRule{{{texts}, Reason:(*apiextensions.FieldValueErrorReason)(nil),"
        f" FieldPath:{golang.text(rule.get('fieldPath'))}, OptionalOldSelf:(*bool)(nil)}}"
    )


def _message(
    rule: Mapping[str, Any], variables: Mapping[str, Type], at: str, context: _Context
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
