"""What CEL expressions come to at run time, and when two values are equal or one is less.

Strings, numbers, lists, maps and null are Python's own; here is what Python has nothing of.

Source: the language definition of CEL (github.com/google/cel-spec, "Values").
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

SMALLEST, LARGEST, LARGEST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
NO_OVERLOAD = "no such overload"
_SECOND = 1_000_000_000
FIRST_SECOND, LAST_SECOND = -62135596800, 253402300799
"""Of the years 1 to 9999, which timestamps may lie in."""


class EvaluationError(ValueError):
    """An expression that has no value; the text is the one that cel-go has for it."""


class Uint(int):
    """An integer of the type `uint`."""


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time."""

    nanoseconds: int


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A moment, as nanoseconds since 1970."""

    nanoseconds: int


class Optional(msgspec.Struct, frozen=True):
    """A value that may not be there."""

    value: Any = None
    present: bool = False


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value."""

    name: str


class SetList(list[Any]):
    """A list whose schema makes it a set: the order of its items means nothing."""


class MapList(list[Any]):
    """A list whose items have an identity."""

    keys: tuple[str, ...] = ()


NONE: Final = Optional()


def present(value: Any) -> Optional:
    """Return an optional that has a value."""
    return Optional(value, present=True)


def duration_of(span: timedelta) -> Duration:
    """Return a span as CEL has it."""
    return Duration((span.days * 86400 + span.seconds) * _SECOND + span.microseconds * 1000)


def timestamp_of(moment: datetime) -> Timestamp:
    """Return a moment as CEL has it; one without a zone is in UTC."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return Timestamp(duration_of(since).nanoseconds)


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type."""
    found = _NAMES.get(type(value))
    return found if found is not None else str(value.type_name)


def same_kind(value: Any) -> type:
    """Return the Python type by which functions are chosen: every list counts as one."""
    kind = type(value)
    return list if kind is SetList or kind is MapList else kind


def is_number(value: Any) -> bool:
    """Return whether a value is an int, a uint or a double."""
    kind = type(value)
    return kind is int or kind is float or kind is Uint


_PLAIN = (str, int, bool, bytes, Duration, Timestamp, TypeValue)


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; those of different types are not, numbers apart."""
    kind = type(one)
    if kind is type(other) and kind in _PLAIN:
        return bool(one == other)
    if is_number(one):
        return is_number(other) and bool(one == other)
    if isinstance(one, list):
        return isinstance(other, list) and _equal_lists(one, other)
    if kind is dict:
        return type(other) is dict and _equal_maps(one, other)
    if kind is Optional:
        if type(other) is not Optional or one.present is not other.present:
            return False
        return not one.present or equal(one.value, other.value)
    return kind is type(other) and bool(one == other)


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if type(one) is SetList:
        return all(contains(other, item) for item in one)
    if type(one) is MapList:
        held = {identity(item, one.keys): item for item in other}
        return all(
            (key := identity(item, one.keys)) in held and equal(item, held[key]) for item in one
        )  # fmt: skip
    return all(map(equal, one, other))


def identity(item: Any, keys: Iterable[str]) -> tuple[Any, ...]:
    """Return what tells an item of a `map` list from its neighbours."""
    return tuple(item.get(key) for key in keys) if isinstance(item, dict) else ()


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return len(one) == len(other) and all(
        key in other and equal(item, other[key]) for key, item in one.items()
    )


def contains(where: list[Any], what: Any) -> bool:
    """Return whether a list has an item that is equal to a value."""
    if type(what) is str:
        return what in where
    return any(equal(item, what) for item in where)


_ORDERED = (str, bytes, bool, Duration, Timestamp)


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1. Raises EvaluationError for values that have no order."""
    fits = type(one) is type(other) and type(one) in _ORDERED
    if not fits and not (is_number(one) and is_number(other)):
        raise EvaluationError(NO_OVERLOAD)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()  # Go compares bytes
    if one == other:
        return 0
    return -1 if one < other else 1


def integer(number: int) -> int:
    """Return a result of arithmetic on ints. Raises EvaluationError where it needs more than 64 bits."""
    if not SMALLEST <= number <= LARGEST:
        raise EvaluationError("integer overflow")
    return number


def unsigned(number: int) -> Uint:
    """Return a result of arithmetic on uints. Raises EvaluationError where it does not fit."""
    if not 0 <= number <= LARGEST_UNSIGNED:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def duration(nanoseconds: int) -> Duration:
    """Return a result of arithmetic on durations. Raises EvaluationError where it does not fit."""
    if not SMALLEST <= nanoseconds <= LARGEST:
        raise EvaluationError("duration overflow")
    return Duration(nanoseconds)


def timestamp(nanoseconds: int) -> Timestamp:
    """Return a result of arithmetic on timestamps. Raises EvaluationError outside of the years 1 to 9999."""
    if not FIRST_SECOND <= nanoseconds // _SECOND <= LAST_SECOND:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds)


def size(value: Any) -> int:
    """Return how large a value counts as in costs."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    return size(value.value) if type(value) is Optional and value.present else 1
