"""A queue of keys to reconcile.

    add ──────────────► ready ──get──► processing ──done──► (gone, or ready again if added meanwhile)
    add_after ─ timer ──┘

A key waits at most once however often it is added, and is never processed by two workers at the same
time: adding it while it is processed queues it again afterwards, so no change is missed. Failures come
back through `add_rate_limited`, whose delay doubles with each failure until `forget`.

Belongs to one event loop. The semantics are those of client-go's `util/workqueue`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from trainshed.kube.meta.sparse import give_back

K = TypeVar("K", bound=Hashable)

BASE_SECONDS = 0.01
MAX_SECONDS = 30.0
"""Failing keys are retried at least this often: a cluster that comes back is noticed within it."""


class QueueClosed(Exception):
    """`get` after `shut_down`, when nothing is left."""


class WorkQueue(Generic[K]):
    """See the module. Delays are in seconds."""

    def __init__(self, *, base_seconds: float = BASE_SECONDS, max_seconds: float = MAX_SECONDS) -> None:
        self._base = base_seconds
        self._max = max_seconds
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys are ready; those processed or on a timer do not count."""
        return len(self._ready)

    def add(self, key: K) -> None:
        """Make `key` ready, unless it is already."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Add `key` in `seconds`; of two pending delays for a key the earlier one stays."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._due, key)

    def add_rate_limited(self, key: K) -> float:
        """Add `key` after its backoff; return that delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay: float = min(self._base * 2 ** min(failures, 32), self._max)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """`key` succeeded: its next failure starts the backoff anew."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next ready key; the caller must call `done` with it. QueueClosed after `shut_down`."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._ready:
                    self._wake()  # this wake-up was for a key: pass it on
                raise
        key = self._ready.popleft()
        self._dirty.discard(key)
        give_back(self._dirty)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """Processing ended. If `key` was added meanwhile it is ready again."""
        self._processing.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._wake()

    def shut_down(self) -> None:
        """Refuse new keys and drop timers and waiting keys; workers leave `get` with QueueClosed."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        self._dirty.clear()
        while self._getters:
            self._wake()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
