"""The store: a revisioned key-value log in one SQLite file, served from memory.

Guarantees, each with a test of that name:
    Durable    a write that was acknowledged survives `kill -9`; an unacknowledged one is whole or absent
    Ordered    revisions only grow, across restarts too; a watch delivers them in order
    Unique     a watch delivers each change once
    Reliable   a watch from revision N delivers every change after N, or says `Compacted`
    Resumable  list at N, then watch from N, equals listing later
    Serialisable  there is one order of all writes, that of their revisions, in which each saw what those before it left

An object that the disk has damaged is left out of lists and events, and named: nothing else suffers from it.

Reads are plain function calls on the event loop; they never block and always see committed state. Every
method must be called on the loop that opened the store.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sqlite3
from pathlib import Path
from typing import TypeAlias

from trainshed.cluster.store import watermark
from trainshed.cluster.store.damage import Damage, write_report
from trainshed.cluster.store.errors import Damaged, FutureRevision, StoreError
from trainshed.cluster.store.index import Index, Values
from trainshed.cluster.store.loading import Loaded
from trainshed.cluster.store.log import FIRST_REVISION, Log, explain
from trainshed.cluster.store.model import Stored, StoreEvent, release_all
from trainshed.cluster.store.transform import PLAIN, Transformer, Undecipherable
from trainshed.cluster.store.window import Watch, Window
from trainshed.cluster.store.writer import Outcomes, Write, Writer
from trainshed.kube.meta.objects import Object

logger = logging.getLogger(__name__)

Listing: TypeAlias = list[Stored]

RETAIN = 10_000
"""Events kept for watchers that come back (API reference: "5 min or 10 000 events")."""
RETAIN_BYTES = 8 * 1024 * 1024
"""Bytes of objects kept for them, if that is less."""


class Store:
    """An open store. Use `Store.open`."""

    def __init__(self, index: Index, window: Window) -> None:
        self._index = index
        self._window = window
        self._damaged: dict[str, int] = {}
        self._writer: Writer | None = None
        self.transformer: Transformer = PLAIN
        """What is done to objects on their way to the disk."""

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        retain: int = RETAIN,
        retain_bytes: int = RETAIN_BYTES,
        transformer: Transformer = PLAIN,
    ) -> Store:
        """Open or create the file. Raises `StoreError` when it cannot be used; it is then left as it was.

        What `transformer` would write in another form is written anew before anything else is done.
        """
        loop = asyncio.get_running_loop()
        log, loaded = await loop.run_in_executor(None, functools.partial(_open, path, retain, transformer))
        index = Index()
        index.load(loaded.heads)
        window = Window(retain, loaded.revision, retain_bytes)
        window.load(loaded.floor, loaded.events, loaded.revision)
        store = cls(index, window)
        store._damaged = dict(loaded.damaged)
        store.transformer = transformer
        writer = Writer(
            log, loaded, retain=retain, floor=lambda: window.floor, loop=loop, publish=store._publish
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
    def is_new(self) -> bool:
        """Whether nothing has ever been written to it."""
        return self.revision == FIRST_REVISION and not self._damaged

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
        """Return the current version of `key`. Raises `Damaged`."""
        if key in self._damaged:
            raise Damaged(key, self._damaged[key])
        return self._index.get(key)

    def list(self, prefix: str) -> tuple[Listing, int]:
        """Return the objects under `prefix`, sorted bytewise by key, and the revision of this state.

        What is damaged is left out: `damaged` names it.
        """
        return self._index.list(prefix), self._window.revision

    async def labelled(self, prefix: str, wanted: Values) -> tuple[Listing, int]:
        """Return what `list` does, without objects that an index of labels tells apart: those left are to be looked at.

        The state is that at the end; an index is made first where there is none and it is worth while.

        `prefix` names a resource, or a namespace of one.
        """
        await self._index.prepare(prefix, wanted)
        return self._index.labelled(prefix, wanted), self._window.revision

    def damaged(self, prefix: str = "/") -> dict[str, int]:
        """Return the objects under `prefix` that cannot be read: their keys and the revision of each."""
        return {key: revision for key, revision in self._damaged.items() if key.startswith(prefix)}

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

    async def create(self, key: str, obj: Object, size: int = 0) -> Stored:
        """Add an object of about `size` bytes, if that is known; sets metadata.resourceVersion.

        Raises `KeyExists`, `StoreError`.
        """
        return await self._submit(Write(key, obj, 0, False, _future(), size=size))

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

    async def discard(self, key: str, obj: Object) -> Stored:
        """Remove an object that is damaged; `obj` stands for its last state. Raises `KeyMissing`, `StoreError`."""
        return await self._submit(Write(key, obj, 0, True, _future(), discard=True))

    def watch(self, prefix: str, since: int, *, limit: int = RETAIN) -> Watch:
        """Return an async iterator of the changes under `prefix` (ends in "/") after revision `since`.

        Raises `Compacted` here when `since` is not retained any more, and while iterating when the reader
        fell `limit` events behind. Close it when done.
        """
        return self._window.watch(prefix, since, limit)

    def forget(self, upto: int) -> None:
        """Drop the history up to this revision, in memory now and in the file when there is nothing to write.

        Who comes back with an older revision is told `Compacted`. The last few events stay.
        """
        self._window.forget(upto)
        if self._writer is not None and not self._writer.closed.done():
            self._writer.tidy()

    async def draw_together(self) -> None:
        """Move all objects closer together in memory, so that what others have left can be given back."""
        release_all()
        await self._index.move()

    async def _write(self, key: str, obj: Object | None, expected: int, *, delete: bool) -> Stored:
        return await self._submit(Write(key, obj, expected, delete, _future()))

    async def _submit(self, write: Write) -> Stored:
        if self._writer is None or self._writer.closed.done():
            raise StoreError("the store is closed", "start the control plane again")
        self._writer.submit(write)
        return await write.done

    def _publish(self, outcomes: Outcomes) -> None:
        """Make a commit visible, then answer its writers. Runs on the loop, in commit order."""
        for write, outcome in outcomes:
            if isinstance(outcome, StoreEvent):
                if write.discard:
                    self._damaged.pop(write.key, None)
                self._index.apply(outcome)
                self._window.publish(outcome)
        for write, outcome in outcomes:
            if write.done.done():
                continue  # the caller was cancelled; the write stands
            if isinstance(outcome, StoreEvent):
                write.done.set_result(outcome.stored)
            else:
                write.done.set_exception(outcome)


def _future() -> asyncio.Future[Stored]:
    return asyncio.get_running_loop().create_future()


def _open(path: Path, retain: int, transformer: Transformer) -> tuple[Log, Loaded]:
    """Return the open file and what it holds; what the disk has done to it is written down beside it."""
    log = Log(path, transformer)
    try:
        loaded = Loaded(log.rows(), log.compacted(), retain)
        log.untrusted = loaded.untrusted
        before, acknowledged = loaded.compacted, watermark.read(path)
        lost = loaded.advance(acknowledged)
        if lost:
            log.compact(before, acknowledged)
        rewritten = log.rewrite()
    except Undecipherable as error:
        log.close()
        hint = (
            "name the EncryptionConfiguration with that key: trainshed up --encryption-provider-config FILE"
        )
        raise StoreError(f"cannot read the store {path}: {error}", hint) from error
    except sqlite3.Error as error:
        log.close()
        raise explain(path, error) from error
    if rewritten:
        logger.info("rows stored anew, as the encryption configuration says: %d", rewritten)
    for key, revision in sorted(loaded.damaged.items()):
        logger.error("the stored object %s, written at revision %d, is damaged and left out", key, revision)
    if lost:
        logger.error(
            "the last %d writes to %s are lost: going on after revision %d", lost, path, acknowledged
        )
    write_report(path, Damage(tuple(sorted(loaded.damaged)), lost))
    return log, loaded
