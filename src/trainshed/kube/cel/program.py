"""CEL programs: an expression becomes functions that call each other, and that count what they cost as they go.

Costs are Kubernetes' units, and its limits stop an expression while it runs, whatever it goes over.

Source: the language definition of CEL for meaning and errors; `cel-go/interpreter/runtimecost.go` and
`apiserver/pkg/cel/library/cost.go` for costs, `apiserver/pkg/apis/cel/config.go` for limits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from trainshed.kube.cel import operators
from trainshed.kube.cel.costs import call_cost
from trainshed.kube.cel.functions import TYPE_NAMES
from trainshed.kube.cel.library import FUNCTIONS, MEMBERS, Overloads
from trainshed.kube.cel.library.authorizer import Authorizer, ResourceCheck
from trainshed.kube.cel.macros import MACROS, Frame, Step
from trainshed.kube.cel.syntax import Call, Expr, Ident, ListLiteral, Literal, MapLiteral, Select, parse
from trainshed.kube.cel.values import NO_OVERLOAD, EvaluationError, Optional, TypeValue, present

CALL_LIMIT = 1_000_000
"""What one evaluation may cost."""
BUDGET = 10_000_000
"""What all rules of an object, or all expressions of a policy, may cost together."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"

_FULL_NAMES = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
_MISSING = object()


class CostExceeded(ValueError):
    """An expression that was stopped since it costs too much."""


class Program:
    """One expression, ready to run."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def run(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """Return the value and what it cost.

        Raises:
            EvaluationError: there is no value.
            CostExceeded: it costs more than `limit`.
        """
        frame = Frame(dict(variables), limit, CostExceeded("operation cancelled: actual cost limit exceeded"))
        try:
            return self._step(frame), frame.spent
        except RecursionError as error:
            raise EvaluationError("the expression is nested too deeply") from error


@functools.lru_cache(maxsize=512)
def compiled(expression: str) -> Program:
    """Return the program of an expression. Raises ValueError where it is none."""
    try:
        return Program(_step(parse(expression)))
    except RecursionError as error:
        raise ValueError("the expression is nested too deeply") from error


def _step(expr: Expr) -> Step:
    match expr:
        case Literal(value=value):
            return lambda frame: value
        case Ident(name=name):
            return _ident(name)
        case Select():
            return _select(expr)
        case ListLiteral():
            return _list(expr)
        case MapLiteral():
            return _map(expr)
        case Call(target=None):
            return _global(expr)
        case Call():
            return _member(expr)


def _ident(name: str) -> Step:
    constant = TypeValue(_FULL_NAMES.get(name, name)) if name in TYPE_NAMES else None

    def ident(frame: Frame) -> Any:
        value = frame.names.get(name, _MISSING)
        if value is _MISSING:
            if constant is None:
                raise EvaluationError(f"no such attribute(s): {name}")
            return constant
        frame.spend(1)
        return value

    return ident


# ---------------------------------------------------------------------------------------------- selection


def _qualified(expr: Expr) -> str:
    """Return a name with dots in it, such as that of a type of protobuf; empty where there is none."""
    if isinstance(expr, Ident):
        return expr.name
    if isinstance(expr, Select) and not (expr.test or expr.optional):
        inner = _qualified(expr.operand)
        return f"{inner}.{expr.field}" if inner else ""
    return ""


def _select(expr: Select) -> Step:
    if _qualified(expr) in operators.QUALIFIED_TYPES:
        kind = TypeValue(_qualified(expr))
        return lambda frame: kind
    operand, field = _step(expr.operand), expr.field
    if expr.test:
        return lambda frame: _has(operand(frame), field)
    if expr.optional:
        return lambda frame: _maybe(frame, operand(frame), field)

    def select(frame: Frame) -> Any:
        held = operand(frame)
        frame.spend(1)
        if type(held) is dict:
            found = held.get(field, _MISSING)
            if found is not _MISSING:
                return found
        elif type(held) is Optional:
            return operators.optional_member(held, field)
        elif type(held) is Authorizer and field == "requestResource" and held.request is not None:
            return ResourceCheck(held, held.request)
        raise operators.no_member(held, field)

    return select


def _has(held: Any, field: str) -> bool:
    if type(held) is Optional:
        return held.present and _has(held.value, field)
    if isinstance(held, list):
        raise operators.no_member(held, field)
    return type(held) is dict and field in held


def _maybe(frame: Frame, held: Any, field: str) -> Optional:
    frame.spend(1)
    return operators.optional_member(held if type(held) is Optional else present(held), field)


# ---------------------------------------------------------------------------------------------- literals


def _is_optional(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function == "?_"


def _list(expr: ListLiteral) -> Step:
    steps = [(_step(item), _is_optional(item)) for item in expr.items]

    def made(frame: Frame) -> list[Any]:
        out = []
        for step, optional in steps:
            value = step(frame)
            if not optional:
                out.append(value)
            elif type(value) is not Optional:
                raise EvaluationError(NO_OVERLOAD)
            elif value.present:
                out.append(value.value)
        frame.spend(10)
        return out

    return made


def _map(expr: MapLiteral) -> Step:
    steps = [(_step(key), _step(value), _is_optional(value)) for key, value in expr.entries]

    def made(frame: Frame) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key_of, step, optional in steps:
            key, value = key_of(frame), step(frame)
            if optional:
                if type(value) is not Optional:
                    raise EvaluationError(NO_OVERLOAD)
                if not value.present:
                    continue
                value = value.value
            operators.insert(out, key, value)
        frame.spend(30)
        return out

    return made


# ---------------------------------------------------------------------------------------------- calls


def _global(expr: Call) -> Step:
    name = expr.function
    steps = [_step(argument) for argument in expr.arguments]
    if name in _CONTROL:
        return _CONTROL[name](*steps)
    operator = operators.OPERATORS.get(name)
    if operator is not None:
        return _operator(operator, steps)
    if name == "?_":
        return steps[0]
    overloads = FUNCTIONS.get(name)
    if overloads is None:
        raise ValueError(f"undeclared reference to '{name}' (in container '')")
    return _function(name, overloads, steps)


def _operator(operator: operators.Operator, steps: list[Step]) -> Step:
    apply, cost = operator
    if len(steps) == 1:
        (only,) = steps

        def unary(frame: Frame) -> Any:
            value = only(frame)
            frame.spend(1)
            return apply(value)

        return unary
    left, right = steps

    def binary(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        frame.spend(cost(one, other))
        return apply(one, other)

    return binary


def _function(name: str, overloads: Overloads, steps: list[Step]) -> Step:
    def call(frame: Frame) -> Any:
        arguments = [step(frame) for step in steps]
        try:
            value = overloads.find(arguments)(*arguments)
        except EvaluationError:
            raise
        except (ValueError, OverflowError) as error:
            raise EvaluationError(str(error)) from error
        frame.spend(call_cost(name, arguments, value))
        return value

    return call


def _member(expr: Call) -> Step:
    target, name = expr.target, expr.function
    assert target is not None
    if isinstance(target, Ident):
        full = f"{target.name}.{name}"
        if full in FUNCTIONS:
            return _function(full, FUNCTIONS[full], [_step(argument) for argument in expr.arguments])
    macro = MACROS.get((name, len(expr.arguments)))
    if macro is not None:
        names = [argument.name for argument in expr.arguments[: macro.names] if isinstance(argument, Ident)]
        if len(names) == macro.names:
            return macro.made(_step(target), names, [_step(part) for part in expr.arguments[macro.names :]])
    overloads = MEMBERS.get(name)
    if overloads is None:
        raise ValueError(f"undeclared reference to '{name}' (in container '')")
    return _function(name, overloads, [_step(target), *(_step(argument) for argument in expr.arguments)])


# ---------------------------------------------------------------------------------------------- control


def _both(ends: bool) -> Callable[[Step, Step], Step]:
    """Return `&&` (which False ends) or `||` (which True ends).

    An error counts only if the other side decides nothing.
    """

    def made(left: Step, right: Step) -> Step:
        def both(frame: Frame) -> bool:
            try:
                one = left(frame)
                if one is ends:
                    return ends
                error = None if type(one) is bool else EvaluationError(NO_OVERLOAD)
            except EvaluationError as failed:
                error = failed
            other = right(frame) if error is None else _tried(right, frame, ends, error)
            if type(other) is not bool:
                raise EvaluationError(NO_OVERLOAD)
            return other

        return both

    return made


def _tried(step: Step, frame: Frame, ends: bool, error: EvaluationError) -> bool:
    try:
        if step(frame) is ends:
            return ends
    except EvaluationError:
        pass
    raise error


def _conditional(when: Step, yes: Step, no: Step) -> Step:
    def conditional(frame: Frame) -> Any:
        holds = when(frame)
        if type(holds) is not bool:
            raise EvaluationError(NO_OVERLOAD)
        return yes(frame) if holds else no(frame)

    return conditional


def _index(held_of: Step, index_of: Step) -> Step:
    def index(frame: Frame) -> Any:
        held, key = held_of(frame), index_of(frame)
        frame.spend(1)
        if type(held) is Optional:
            return operators.optional_item(held, key)
        return operators.item(held, key)

    return index


def _optional_index(held_of: Step, index_of: Step) -> Step:
    def index(frame: Frame) -> Any:
        held, key = held_of(frame), index_of(frame)
        frame.spend(1)
        return operators.optional_item(held if type(held) is Optional else present(held), key)

    return index


_CONTROL: dict[str, Callable[..., Step]] = {
    "_&&_": _both(ends=False),
    "_||_": _both(ends=True),
    "_?_:_": _conditional,
    "_[_]": _index,
    "_[?_]": _optional_index,
}


def run(expression: str, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> Any:
    """Return the value of an expression, e.g. of a match condition; ValueError says why there is none."""
    return compiled(expression).run(variables, limit)[0]
