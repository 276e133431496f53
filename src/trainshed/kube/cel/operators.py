"""The operators of CEL on values that are there.

Source: the language definition of CEL, "Values" and "Overloads"; texts of errors are cel-go's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from trainshed.kube.cel.values import (
    NO_OVERLOAD,
    NONE,
    SMALLEST,
    Duration,
    EvaluationError,
    MapList,
    Optional,
    SetList,
    Timestamp,
    Uint,
    compare,
    contains,
    duration,
    equal,
    identity,
    integer,
    is_number,
    present,
    size,
    timestamp,
    type_name,
    unsigned,
)

Operator: TypeAlias = tuple[Callable[..., Any], Callable[[Any, Any], int]]
"""What an operator does, and what it costs."""
# fmt: off
QUALIFIED_TYPES = frozenset({
    "google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR", "kubernetes.URL",
    "kubernetes.Quantity", "kubernetes.NamedFormat", "kubernetes.Semver",
})
# fmt: on


def no_member(held: Any, field: str) -> EvaluationError:
    """Return the error of a field that a value does not have."""
    if isinstance(held, list):
        return EvaluationError("unsupported index type 'string' in list")
    return EvaluationError(f"no such key: {field}")


def optional_member(held: Optional, field: str) -> Optional:
    """Return a field of a value that may not be there, which may not be there either."""
    if not held.present:
        return NONE
    if type(held.value) is not dict:
        raise no_member(held.value, field)
    return present(held.value[field]) if field in held.value else NONE


def _key(key: Any) -> Any:
    """Return a key of a map in the form in which it is held. Doubles that are whole find integers."""
    if type(key) is float and not key.is_integer():
        return None
    return key


def _find(held: Any, key: Any) -> tuple[bool, Any]:
    if type(held) is dict:
        if isinstance(key, list | dict) or key is None:
            raise EvaluationError(f"unsupported key type: {type_name(key)}")
        found = _key(key)
        return (True, held[found]) if found in held else (False, None)
    if isinstance(held, list):
        if not is_number(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if type(key) is float and not key.is_integer():
            raise EvaluationError(f"unsupported index value {key} in list")
        at = int(key)
        return (True, held[at]) if 0 <= at < len(held) else (False, None)
    raise EvaluationError(f"no such key: {key}")


def item(held: Any, key: Any) -> Any:
    """Return an item of a list or the value of a key."""
    there, value = _find(held, key)
    if not there:
        where = "index out of bounds" if isinstance(held, list) else "no such key"
        raise EvaluationError(f"{where}: {key}")
    return value


def optional_item(held: Optional, key: Any) -> Optional:
    """Return an item of what may not be there."""
    if not held.present:
        return NONE
    there, value = _find(held.value, key)
    return present(value) if there else NONE


def insert(into: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry into a map that is being made. Raises EvaluationError for keys that are there or cannot be one."""
    if isinstance(key, list | dict) or key is None or type(key) is float:
        raise EvaluationError(f"unsupported key type: {type_name(key)}")
    if key in into:
        raise EvaluationError(f"insert failed: key {key} already exists")
    into[key] = value


# ---------------------------------------------------------------------------------------------- arithmetic


def _add(one: Any, other: Any) -> Any:
    match one, other:
        case (Duration(), Duration()):
            return duration(one.nanoseconds + other.nanoseconds)
        case (Timestamp(), Duration()) | (Duration(), Timestamp()):
            return timestamp(one.nanoseconds + other.nanoseconds)
    kind = type(one)
    if kind is type(other):
        if kind is int:
            return integer(one + other)
        if kind is Uint:
            return unsigned(int(one) + int(other))
        if kind is str or kind is bytes or kind is float or kind is list:
            return one + other
    if isinstance(one, list) and isinstance(other, list):
        return _joined(one, other)
    raise EvaluationError(NO_OVERLOAD)


def _joined(one: list[Any], other: list[Any]) -> list[Any]:
    """Return two lists joined as the schema of the first says: a set has no item twice, a map no key."""
    if type(one) is SetList:
        return SetList([*one, *(item for item in other if not contains(one, item))])
    if type(one) is MapList:
        newer = {identity(item, one.keys): item for item in other}
        out = MapList(newer.pop(identity(item, one.keys), item) for item in one)
        out.extend(newer.values())
        out.keys = one.keys
        return out
    return [*one, *other]


def _subtract(one: Any, other: Any) -> Any:
    match one, other:
        case (Duration(), Duration()) | (Timestamp(), Timestamp()):
            return duration(one.nanoseconds - other.nanoseconds)
        case (Timestamp(), Duration()):
            return timestamp(one.nanoseconds - other.nanoseconds)
    if type(one) is not type(other):
        raise EvaluationError(NO_OVERLOAD)
    if type(one) is int:
        return integer(one - other)
    if type(one) is Uint:
        return unsigned(int(one) - int(other))
    if type(one) is float:
        return one - other
    raise EvaluationError(NO_OVERLOAD)


def _multiply(one: Any, other: Any) -> Any:
    if type(one) is not type(other):
        raise EvaluationError(NO_OVERLOAD)
    if type(one) is int:
        return integer(one * other)
    if type(one) is Uint:
        return unsigned(int(one) * int(other))
    if type(one) is float:
        return one * other
    raise EvaluationError(NO_OVERLOAD)


def _divide(one: Any, other: Any) -> Any:
    if type(one) is not type(other) or not is_number(one):
        raise EvaluationError(NO_OVERLOAD)
    if type(one) is float:
        return _quotient(one, other)
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    if type(one) is Uint:
        return unsigned(quotient)
    return integer(quotient if (one < 0) == (other < 0) else -quotient)


def _quotient(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def _remainder(one: Any, other: Any) -> Any:
    if type(one) is not type(other) or type(one) not in (int, Uint):
        raise EvaluationError(NO_OVERLOAD)
    if other == 0:
        raise EvaluationError("modulus by zero")
    if one == SMALLEST and other == -1:
        raise EvaluationError("integer overflow")
    left = abs(one) % abs(other)
    return Uint(left) if type(one) is Uint else (-left if one < 0 else left)


def _negate(value: Any) -> Any:
    if type(value) is int:
        if value == SMALLEST:
            raise EvaluationError("integer overflow")
        return -value
    if type(value) is float:
        return -value
    raise EvaluationError(NO_OVERLOAD)


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise EvaluationError(NO_OVERLOAD)
    return not value


def _in(what: Any, where: Any) -> bool:
    if isinstance(where, list):
        return contains(where, what)
    if type(where) is dict:
        if isinstance(what, list | dict):
            raise EvaluationError(NO_OVERLOAD)
        return _key(what) in where
    raise EvaluationError(NO_OVERLOAD)


# ---------------------------------------------------------------------------------------------- costs


def _one(one: Any, other: Any) -> int:
    return 1


def _tenth_of_least(one: Any, other: Any) -> int:
    return -(-min(size(one), size(other)) // 10)


def _order(one: Any, other: Any) -> int:
    return _tenth_of_least(one, other) if isinstance(one, str | bytes) else 1


def _sum(one: Any, other: Any) -> int:
    return -(-(size(one) + size(other)) // 10) if isinstance(one, str | bytes) else 1


def _search(what: Any, where: Any) -> int:
    return size(where) if isinstance(where, list) else 1


OPERATORS: dict[str, Operator] = {
    "_+_": (_add, _sum),
    "_-_": (_subtract, _one),
    "_*_": (_multiply, _one),
    "_/_": (_divide, _one),
    "_%_": (_remainder, _one),
    "-_": (_negate, _one),
    "!_": (_not, _one),
    "_==_": (equal, _tenth_of_least),
    "_!=_": (lambda one, other: not equal(one, other), _tenth_of_least),
    "_<_": (lambda one, other: compare(one, other) < 0, _order),
    "_<=_": (lambda one, other: compare(one, other) <= 0, _order),
    "_>_": (lambda one, other: compare(one, other) > 0, _order),
    "_>=_": (lambda one, other: compare(one, other) >= 0, _order),
    "@in": (_in, _search),
}
