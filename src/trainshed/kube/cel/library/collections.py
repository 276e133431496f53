"""Lists, maps and sets: their sizes, and Kubernetes' list library and CEL's sets extension.

Source: the Kubernetes documentation, "CEL in Kubernetes"; `cel-go/ext/sets.go`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from trainshed.kube.cel.library.overloads import ANY, function, member
from trainshed.kube.cel.operators import OPERATORS
from trainshed.kube.cel.values import (
    NO_OVERLOAD,
    Duration,
    EvaluationError,
    Uint,
    compare,
    contains,
    equal,
)

for _kind in (str, bytes, list, dict):
    function("size", _kind)(len)
    member("size", _kind)(len)


@member("isSorted", list)
def _is_sorted(items: list[Any]) -> bool:
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(items))


@member("sum", list)
def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    if not isinstance(items[0], int | float | Uint | Duration) or isinstance(items[0], bool):
        raise EvaluationError(f"{NO_OVERLOAD}: sum(list)")
    add, _ = OPERATORS["_+_"]
    total = items[0]
    for item in items[1:]:
        total = add(total, item)
    return total


def _most(name: str, keeps: Callable[[int], bool]) -> Callable[[list[Any]], Any]:
    def most(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        found = items[0]
        for item in items[1:]:
            if not keeps(compare(found, item)):
                found = item
        return found

    return most


member("min", list)(_most("min", lambda order: order <= 0))
member("max", list)(_most("max", lambda order: order >= 0))


@member("indexOf", list, ANY)
def _index_of(items: list[Any], what: Any) -> int:
    return next((at for at, item in enumerate(items) if equal(item, what)), -1)


@member("lastIndexOf", list, ANY)
def _last_index_of(items: list[Any], what: Any) -> int:
    return next((at for at in reversed(range(len(items))) if equal(items[at], what)), -1)


@function("sets.contains", list, list)
def _includes(items: list[Any], others: list[Any]) -> bool:
    return all(contains(items, other) for other in others)


@function("sets.equivalent", list, list)
def _equivalent(items: list[Any], others: list[Any]) -> bool:
    return _includes(items, others) and _includes(others, items)


@function("sets.intersects", list, list)
def _intersects(items: list[Any], others: list[Any]) -> bool:
    return any(contains(items, other) for other in others)
