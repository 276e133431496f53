"""Whose turn it is: keys by their turn, the lowest first, whatever the order in which they came."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from trainshed.kube.meta.sparse import give_back

K = TypeVar("K", bound=Hashable)


class ActiveQueue(Generic[K]):
    """Keys that wait for their turn, each once."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, K]] = []
        self._current: dict[K, int] = {}
        self._count = 0

    def __contains__(self, key: K) -> bool:
        return key in self._current

    def put(self, key: K, turn: tuple[Any, ...]) -> None:
        """Let `key` wait for this turn, instead of the one that it had; of equal turns, who came first."""
        self._count += 1
        self._current[key] = self._count
        heapq.heappush(self._heap, (turn, self._count, key))

    def pop(self) -> K | None:
        """Return the key whose turn it is; it waits no more. None when no key waits."""
        while self._heap:
            _, number, key = heapq.heappop(self._heap)
            if self._current.get(key) == number:
                del self._current[key]
                give_back(self._current)
                return key
        return None
