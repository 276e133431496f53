"""What operators come to: the type of each and its cost, or why it does not fit what it is given.

Source: as `check`.
"""

from __future__ import annotations

import msgspec

from trainshed.kube.cel.functions import (
    BOOL,
    INT,
    NUMBERS,
    ORDERED,
    optional_of,
    plus,
    tenth,
)
from trainshed.kube.cel.syntax import (
    Call,
    Expr,
)
from trainshed.kube.cel.types import DYN, Type, agree


class Wrong(Exception):
    """An expression that is refused: where, and why in Kubernetes' words."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at, self.text = at, text


class Misread(Wrong):
    """A macro that cannot be understood: nothing else is looked at."""


def joined(one: Type, other: Type, expr: Expr) -> Type:
    """Return the type of what may be either, which both must agree on."""
    if not agree(one, other):
        raise Wrong(expr.at, f"expected type '{one}' but found '{other}'")
    wider = one if other.kind in ("null_type",) or one.kind == "dyn" else other
    return wider.sized(max(one.size, other.size))


def want(expr: Call, types: list[Type], fits: bool) -> None:
    """Raise Wrong unless what an operator is given fits it."""
    if not fits:
        shown = ", ".join(map(str, types))
        raise Wrong(expr.at, f"found no matching overload for '{expr.function}' applied to '({shown})'")


def conditional(expr: Call, found: list[tuple[Type, int]]) -> tuple[Type, int]:
    """Return type and cost of `a ? b : c`."""
    (when, cost), (yes, first), (no, second) = found
    want(expr, [when, yes, no], agree(when, BOOL) and agree(yes, no))
    wider = yes if no.kind == "null_type" or yes.kind == "dyn" else no
    return wider.sized(max(yes.size, no.size)), plus(cost, max(first, second))


def equality_cost(one: Type, other: Type) -> int:
    """Return what it costs to compare two values for equality."""
    if one.kind == other.kind in ("quantity", "semver", "ip", "cidr"):
        return 1
    return tenth(min(one.size, other.size))


def comparison(expr: Call, types: list[Type], cost: int) -> tuple[Type, int]:
    """Return type and cost of an order: `<`, `>=`."""
    one, other = types
    numbers = one.kind in NUMBERS and other.kind in NUMBERS
    ordered = one.kind in ORDERED and other.kind in ORDERED
    want(expr, types, ordered and (numbers or agree(one, other)))
    texts = one.kind in ("string", "bytes", "dyn") and other.kind in ("string", "bytes", "dyn")
    return BOOL, plus(cost, tenth(min(one.size, other.size)) if texts else 1)


def arithmetic(expr: Call, types: list[Type], cost: int) -> tuple[Type, int]:
    """Return type and cost of numbers, times and texts put together."""
    one, other = types
    kinds = {one.kind, other.kind} - {"dyn"}
    if expr.function == "_+_" and kinds and kinds <= {"string"} | {"bytes"} | {"list"}:
        want(expr, types, agree(one, other))
        found = joined(one, other, expr)
        if found.kind == "dyn":  # one kind alone can be added to what is known
            found = one if other.kind == "dyn" else other
        found = found.sized(plus(one.size, other.size))
        if found.elem is not None and one.elem is not None and other.elem is not None:
            found = msgspec.structs.replace(found, elem=joined(one.elem, other.elem, expr))
        return found, plus(cost, 1 if "list" in kinds else tenth(found.size))
    times = expr.function in ("_+_", "_-_") and kinds <= {"timestamp", "duration"}
    want(expr, types, times or (kinds <= set(NUMBERS) and len(kinds) < 2))
    if not kinds:
        return DYN, plus(cost, tenth(plus(one.size, other.size)) if expr.function == "_+_" else 1)
    if times:
        both = len(kinds) == 2 or (kinds == {"timestamp"} and expr.function == "_+_")
        return Type("timestamp" if both else "duration", 1), cost + 1
    return Type(kinds.pop(), 1), cost + 1


def membership(expr: Call, types: list[Type], cost: int) -> tuple[Type, int]:
    """Return type and cost of `in`."""
    what, where = types
    fits = where.kind in ("list", "map", "dyn")
    if where.kind == "list" and where.elem is not None:
        fits = agree(what, where.elem)
    want(expr, types, fits)
    return BOOL, plus(cost, 1 if where.kind == "map" else where.size)


def indexing(expr: Call, types: list[Type], cost: int) -> tuple[Type, int]:
    """Return type and cost of an item of a list or map."""
    held, index = types
    inside = held.elem or DYN if held.kind == "optional" else held
    keys = index.kind not in ("double", "list", "map", "null_type")
    fits = (
        inside.kind == "dyn"
        or (inside.kind == "map" and keys)
        or (inside.kind == "list" and agree(index, INT))
    )
    want(expr, types, fits)
    found = inside.elem or DYN if inside.kind != "dyn" else DYN
    if expr.function == "_[?_]" or held.kind == "optional":
        found = optional_of(found)
    return found, plus(cost, 1)
