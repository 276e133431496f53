"""The store: a revisioned key-value log in one SQLite file, served from memory.

Guarantees, each with a test of that name:
    Durable    a write that was acknowledged survives `kill -9`; an unacknowledged one is whole or absent
    Ordered    revisions only grow, across restarts too; a watch delivers them in order
    Unique     a watch delivers each change once
    Reliable   a watch from revision N delivers every change after N, or says `Compacted`
    Resumable  list at N, then watch from N, equals listing later

Reads are plain function calls on the event loop; they never block and always see committed state. Every
method must be called on the loop that opened the store.
"""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from trainshed.cluster.store.errors import FutureRevision, StoreError
from trainshed.cluster.store.index import Index
from trainshed.cluster.store.log import Log, Row, explain
from trainshed.cluster.store.model import ADDED, DELETED, MODIFIED, EventType, Stored, StoreEvent
from trainshed.cluster.store.window import Watch, Window
from trainshed.cluster.store.writer import Outcomes, Write, Writer
from trainshed.kube.meta.objects import Object

Listing: TypeAlias = list[Stored]

RETAIN = 10_000
"""Events kept for watchers that come back (API reference: "5 min or 10 000 events")."""


class Store:
    """An open store. Use `Store.open`."""

    def __init__(self, index: Index, window: Window) -> None:
        self._index = index
        self._window = window
        self._writer: Writer | None = None

    @classmethod
    async def open(cls, path: Path, *, retain: int = RETAIN) -> Store:
        """Open or create the file. Raises `StoreError` when it cannot be used; it is then left as it was."""
        loop = asyncio.get_running_loop()
        log, loaded = await loop.run_in_executor(None, functools.partial(_open, path, retain))
        index = Index()
        index.load(loaded.heads)
        window = Window(retain, loaded.revision)
        window.load(loaded.floor, loaded.events, loaded.revision)
        store = cls(index, window)
        writer = Writer(
            log,
            loaded.heads,
            loaded.revision,
            compacted=loaded.compacted,
            retain=retain,
            loop=loop,
            publish=store._publish,
        )
        writer.start()
        store._writer = writer
        return store

    async def close(self) -> None:
        """Finish queued writes, end all watches, close the file. Safe to call twice."""
        writer = self._writer
        if writer is None:
            return
        if not writer.closed.done():
            writer.stop()
            await asyncio.shield(writer.closed)
        self._writer = None
        self._window.close()

    @property
    def revision(self) -> int:
        """The revision of the latest visible write."""
        return self._window.revision

    @property
    def floor(self) -> int:
        """The oldest revision a watch may start from."""
        return self._window.floor

    @property
    def commits(self) -> int:
        """Transactions since the store was opened: writes per commit tell how well grouping works."""
        return self._writer.commits if self._writer else 0

    def __len__(self) -> int:
        return len(self._index)

    def get(self, key: str) -> Stored | None:
        """Return the current version of `key`."""
        return self._index.get(key)

    def list(self, prefix: str) -> tuple[Listing, int]:
        """Return the objects under `prefix`, sorted bytewise by key, and the revision of this state."""
        return self._index.list(prefix), self._window.revision

    def snapshot(self, prefix: str, revision: int) -> Listing:
        """Return the objects under `prefix` as they were at `revision`. Raises `Compacted`, `FutureRevision`.

        Made by undoing the events since then: nothing is pinned, so an abandoned pagination costs nothing.
        """
        if revision > self._window.revision:
            raise FutureRevision(revision, self._window.revision)
        now = self._index.list(prefix)
        later = [e for e in self._window.after(revision) if e.key.startswith(prefix)]
        if not later:
            return now
        state = {s.key: s for s in now}
        for event in reversed(later):
            if event.previous is None:
                state.pop(event.key, None)
            else:
                state[event.key] = event.previous
        return [state[key] for key in sorted(state)]

    async def create(self, key: str, obj: Object) -> Stored:
        """Add an object; sets metadata.resourceVersion. Raises `KeyExists`, `StoreError`."""
        return await self._write(key, obj, 0, delete=False)

    async def update(self, key: str, obj: Object, expected_revision: int) -> Stored:
        """Replace an object that is still at `expected_revision`.

        Raises `RevisionMismatch`, `KeyMissing`, `StoreError`.
        """
        return await self._write(key, obj, expected_revision, delete=False)

    async def delete(self, key: str, expected_revision: int, obj: Object | None = None) -> Stored:
        """Remove an object that is still at `expected_revision`; return its last state at a new revision.

        `obj`, when given, is recorded as that last state. Raises `RevisionMismatch`, `KeyMissing`,
        `StoreError`.
        """
        return await self._write(key, obj, expected_revision, delete=True)

    def watch(self, prefix: str, since: int, *, limit: int = RETAIN) -> Watch:
        """Return an async iterator of the changes under `prefix` (ends in "/") after revision `since`.

        Raises `Compacted` here when `since` is not retained any more, and while iterating when the reader
        fell `limit` events behind. Close it when done.
        """
        return self._window.watch(prefix, since, limit)

    async def _write(self, key: str, obj: Object | None, expected: int, *, delete: bool) -> Stored:
        if self._writer is None or self._writer.closed.done():
            raise StoreError("the store is closed", "start the control plane again")
        done: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._writer.submit(Write(key, obj, expected, delete, done))
        return await done

    def _publish(self, outcomes: Outcomes) -> None:
        """Make a commit visible, then answer its writers. Runs on the loop, in commit order."""
        for _, outcome in outcomes:
            if isinstance(outcome, StoreEvent):
                self._index.apply(outcome)
                self._window.publish(outcome)
        for write, outcome in outcomes:
            if write.done.done():
                continue  # the caller was cancelled; the write stands
            if isinstance(outcome, StoreEvent):
                write.done.set_result(outcome.stored)
            else:
                write.done.set_exception(outcome)


class _Loaded:
    """What the log held: current objects, and the events that can be replayed from it."""

    def __init__(self, rows: Iterable[Row], compacted: int, retain: int) -> None:
        self.heads: dict[str, Stored] = {}
        self.events: list[StoreEvent] = []
        self.compacted = compacted
        self.revision = compacted
        for row in rows:
            self._replay(row)
            if len(self.events) > 2 * retain:
                del self.events[:retain]
        self.floor = self.events[0].revision - 1 if self.events else self.revision

    def _replay(self, row: Row) -> None:
        stored = Stored(row.key, row.revision, row.create_revision, row.value)
        previous = self.heads.get(row.key)
        if row.deleted:
            self.heads.pop(row.key, None)
        else:
            self.heads[row.key] = stored
        if row.revision > self.compacted:
            self.revision = row.revision
            type_: EventType = DELETED if row.deleted else MODIFIED if row.previous_revision else ADDED
            self.events.append(StoreEvent(type_, stored, previous))


def _open(path: Path, retain: int) -> tuple[Log, _Loaded]:
    log = Log(path)
    try:
        return log, _Loaded(log.rows(), log.compacted(), retain)
    except sqlite3.Error as error:
        log.close()
        raise explain(path, error) from error
