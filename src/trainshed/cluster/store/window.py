"""Recent events, and the watchers that wait for the next ones.

Queues: the window (recent events, `retain` of them or `retain_bytes` of their objects, the oldest dropped first) and
one queue of references per watcher. A watcher whose queue is full is dropped and told `Compacted`: it has to list
again. A slow reader therefore never holds up a write, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice

from trainshed.cluster.store.errors import Compacted
from trainshed.cluster.store.model import StoreEvent, prefixes

MIN_EVENTS = 100
"""Kept however large they are."""


class Window:
    """Events with revisions in (`floor`, `revision`], one per revision, and the watchers by prefix."""

    def __init__(self, retain: int, revision: int, retain_bytes: int = sys.maxsize) -> None:
        self.retain = retain
        self.retain_bytes = retain_bytes
        self.floor = revision
        self.revision = revision
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0
        self._watches: dict[str, set[Watch]] = {}

    def load(self, floor: int, events: Iterable[StoreEvent], revision: int) -> None:
        """Start from the events after `floor` found in the log."""
        self.floor = floor
        for event in events:
            self._append(event)
        self.revision = revision

    def publish(self, event: StoreEvent) -> None:
        """Append `event` and offer it to those who watch its key."""
        self._append(event)
        self.revision = event.revision
        for prefix in prefixes(event.key):
            watches = self._watches.get(prefix)
            if watches:
                for watch in tuple(watches):
                    watch.offer(event)

    def _append(self, event: StoreEvent) -> None:
        events = self._events
        events.append(event)
        self._bytes += len(event.stored.encoded)
        while len(events) > self.retain or (self._bytes > self.retain_bytes and len(events) > MIN_EVENTS):
            self._drop_oldest()

    def forget(self, upto: int) -> None:
        """Drop the events up to this revision, but for the last `MIN_EVENTS`."""
        while len(self._events) > MIN_EVENTS and self._events[0].revision <= upto:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._events.popleft()
        self.floor = oldest.revision
        self._bytes -= len(oldest.stored.encoded)

    def after(self, since: int) -> list[StoreEvent]:
        """Return the events with a revision above `since`. Raises `Compacted`."""
        if since < self.floor:
            raise Compacted(since, self.floor)
        return list(islice(self._events, since - self.floor, None))

    def watch(self, prefix: str, since: int, limit: int) -> Watch:
        """Return a watch of the keys under `prefix` from the event after `since`. Raises `Compacted`."""
        backlog = [e for e in self.after(since) if e.key.startswith(prefix)]
        watch = Watch(self, prefix, since, backlog, limit)
        self._watches.setdefault(prefix, set()).add(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        watches = self._watches.get(watch.prefix)
        if watches:
            watches.discard(watch)
            if not watches:
                del self._watches[watch.prefix]

    def close(self) -> None:
        """End every watch."""
        for watches in tuple(self._watches.values()):
            for watch in tuple(watches):
                watch.close()


class Watch:
    """An async iterator of `StoreEvent`s: every change under `prefix` after `since`, in order, once.

    Raises `Compacted` when it fell `limit` events behind. Ends when closed, or when the store closes.
    """

    def __init__(
        self, window: Window, prefix: str, since: int, backlog: Iterable[StoreEvent], limit: int
    ) -> None:
        self.prefix = prefix
        self._window = window
        self._since = since
        self._limit = limit
        self._pending: deque[StoreEvent] = deque(backlog)
        self._waiter: asyncio.Future[None] | None = None
        self._overrun = False
        self._closed = False
        self._until: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late = False

    def offer(self, event: StoreEvent) -> None:
        """Queue an event; called by the window."""
        if event.revision <= self._since:
            return
        if len(self._pending) >= self._limit:
            self._overrun = True
            self._pending.clear()
            self._window.remove(self)
        else:
            self._pending.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batch(self, until: float | None = None) -> list[StoreEvent]:
        """Return all pending events, waiting for the first; empty when the watch was closed.

        Raises TimeoutError at `until`, a time of the loop. One timer serves all calls that name the same: a
        watch waits thousands of times for its next event, and once for its end.
        """
        self._set_timer(until)
        while not self._pending:
            if self._overrun:
                raise Compacted(self._since, self._window.floor)
            if self._closed:
                return []
            if self._late:
                self._set_timer(None)
                raise TimeoutError
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        out = list(self._pending)
        self._pending.clear()
        self._since = out[-1].revision
        return out

    def _set_timer(self, until: float | None) -> None:
        if until == self._until:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._until, self._timer, self._late = until, None, False
        if until is not None:
            self._timer = asyncio.get_running_loop().call_at(until, self._ring)

    def _ring(self) -> None:
        self._late = True
        self._wake()

    def drain(self) -> list[StoreEvent]:
        """Return what is pending without waiting. Raises `Compacted` when events were lost."""
        if self._overrun:
            raise Compacted(self._since, self._window.floor)
        out = list(self._pending)
        self._pending.clear()
        if out:
            self._since = out[-1].revision
        return out

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> StoreEvent:
        while not self._pending:
            events = await self.batch()
            if not events:
                raise StopAsyncIteration
            self._pending.extend(events)
        event = self._pending.popleft()
        self._since = event.revision
        return event

    @property
    def position(self) -> int:
        """The revision up to which nothing is left to deliver: what a bookmark may say."""
        return self._window.revision if not self._pending else self._since

    def close(self) -> None:
        """Stop. Safe to call twice."""
        self._closed = True
        self._window.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self._wake()
