"""The single writer: a thread that checks, numbers and commits writes in the order they came.

Group commit: everything that queued up while the last commit was on its way to the disk goes into the next
one. Only after the commit are the writes published, on the event loop and in revision order, so what a reader
sees is always durable. When a commit fails, each of its writers gets a `StoreError` and the state is as it
was before.

While nothing waits to be written the thread tidies up: it compacts what the window of events has dropped, and gives
free pages of the file back.
"""

from __future__ import annotations

import enum
import queue
import sqlite3
import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from trainshed.cluster.store.damage import Damage, write_report
from trainshed.cluster.store.errors import Damaged, KeyExists, KeyMissing, RevisionMismatch, StoreError
from trainshed.cluster.store.loading import Loaded
from trainshed.cluster.store.log import Log, explain
from trainshed.cluster.store.model import ADDED, DELETED, MODIFIED, Stored, StoreEvent
from trainshed.cluster.store.rows import Row
from trainshed.cluster.store.watermark import Watermark
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.sparse import give_back

MAX_BATCH = 256
"""Writes from which on a commit takes no more: bounds how long the first of them waits for the last to be encoded."""
COMPACT_STEP = 1000
"""Revisions compacted per transaction: writers wait for at most one step."""
LARGE_BYTES = 128 * 1024
"""An object of this size is committed by itself: who writes small ones waits for one at most, however many there
are. To encode, write and flush 1 MB takes 5 to 15 ms."""
SHRINK_PAGES = 512
"""Pages given back at a time, for the same reason."""
HISTORY_BYTES = 32 * 1024 * 1024
"""Size of rows since the last compaction that makes the next one due, however few they are."""
QUIET_HISTORY_BYTES = 4 * 1024 * 1024
"""The same for a quiet moment."""
QUIET_SECONDS = 0.05
"""How long nothing was written before the thread tidies up, a step at a time."""

_encode = msgspec.json.Encoder().encode


class Write(NamedTuple):
    """A request to the writer. `expected` is 0 for a create; `obj` is None for a plain delete.

    `discard` removes an object that is damaged, and nothing else; `obj` is then what stands for its last state. `size`:
    about how many bytes the object has, 0 where that is not known.
    """

    key: str
    obj: Object | None
    expected: int
    delete: bool
    done: Future[Stored]
    discard: bool = False
    size: int = 0


class _Tidy(enum.Enum):
    TIDY = enum.auto()


_TIDY = _Tidy.TIDY

Outcome = tuple[Write, StoreEvent | Exception]
Outcomes = list[Outcome]
Publish = Callable[[Outcomes], None]


class Writer:
    """Owns the log and the thread. `publish` runs on the event loop, once per commit."""

    def __init__(
        self,
        log: Log,
        loaded: Loaded,
        *,
        retain: int,
        floor: Callable[[], int],
        loop: AbstractEventLoop,
        publish: Publish,
    ) -> None:
        self._log = log
        self._heads = loaded.heads
        self._damaged = dict(loaded.damaged)
        self._revision = loaded.revision
        self._compacted = loaded.compacted
        self._retain = retain
        self._floor = floor
        self._loop = loop
        self._publish = publish
        self._watermark = Watermark(log.path)
        self._watermark.write(loaded.revision)
        self._queue: queue.SimpleQueue[list[Write] | _Tidy | None] = queue.SimpleQueue()
        self._gathered: list[Write] = []
        self._broken = False
        self._large_next = False
        self._history_bytes = 0
        self._target = loaded.compacted
        self._tidy = False
        self.closed: Future[None] = loop.create_future()
        self.commits = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="store-writer", daemon=True).start()

    def submit(self, write: Write) -> None:
        """Hand a write over at the end of this turn of the loop, with all others of the turn: each waking of the
        thread makes the two wait for each other."""
        if not self._gathered:
            self._loop.call_soon(self._hand_in)
        self._gathered.append(write)

    def _hand_in(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def tidy(self) -> None:
        """Compact what the window has dropped, and shrink the file, as soon as nothing waits to be written."""
        self._queue.put(_TIDY)

    def stop(self) -> None:
        """Ask the thread to finish what is queued and close the file; `closed` is set when it has."""
        self._hand_in()
        self._queue.put(None)

    def _run(self) -> None:
        stopping = False
        waiting: list[Write] = []
        while waiting or not stopping:
            if not waiting:
                try:
                    first = self._queue.get(timeout=None if self._tidy else QUIET_SECONDS)
                except queue.Empty:
                    self._tidy_up()
                    continue
                stopping = self._take(first, waiting)
            most = len(waiting) + MAX_BATCH
            while not stopping and len(waiting) < most:
                try:
                    stopping = self._take(self._queue.get_nowait(), waiting)
                except queue.Empty:
                    break
            if waiting:
                batch, waiting = self._next(waiting)
                self._hand_over(self._commit(batch))
                self._compact_if_due()
        try:
            self._log.close()
            self._watermark.close()
        finally:
            self._loop.call_soon_threadsafe(_finish, self.closed)

    def _next(self, waiting: list[Write]) -> tuple[list[Write], list[Write]]:
        """Return what of the waiting writes is committed now, and what later: a large one by itself, and in between
        all small ones.

        All of them are under way at the same time: nobody can tell that another order was not theirs.
        """
        large = [write for write in waiting if self._is_large(write)]
        small_first, self._large_next = not self._large_next, False
        if not large:
            return waiting, []
        if small_first and len(large) < len(waiting):
            self._large_next = True
            return [write for write in waiting if not self._is_large(write)], large
        return large[:1], [write for write in waiting if write is not large[0]]

    def _is_large(self, write: Write) -> bool:
        """Return whether a write is of a large object: one that was, where it is not known yet."""
        current = self._heads.get(write.key)
        return max(write.size, 0 if current is None else len(current.encoded)) >= LARGE_BYTES

    def _take(self, item: list[Write] | _Tidy | None, batch: list[Write]) -> bool:
        """Take in one item of the queue; return whether it was the last."""
        if item is _TIDY:
            self._target, self._history_bytes, self._tidy = self._floor(), 0, False
        elif isinstance(item, list):
            batch += item
        return item is None

    def _hand_over(self, outcomes: list[Outcome]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._publish, outcomes)
        except RuntimeError:
            # The loop is closed: nobody waits any more. What was committed is in the log.
            pass

    def _commit(self, batch: list[Write]) -> list[Outcome]:
        """Return what each write came to, after the commit of those that pass their checks."""
        outcomes: list[Outcome] = []
        rows: list[Row] = []
        overlay: dict[str, Stored | None] = {}
        discarded: list[str] = []
        revision = self._revision
        for write in batch:
            current = overlay[write.key] if write.key in overlay else self._heads.get(write.key)
            damaged = 0 if write.key in discarded else self._damaged.get(write.key, 0)
            try:
                event = _apply(write, current, damaged, revision + 1)
            except Exception as error:
                outcomes.append((write, error))
                continue
            revision += 1
            stored = event.stored
            overlay[write.key] = None if write.delete else stored
            if damaged:
                discarded.append(write.key)
            previous = current.revision if current else damaged
            rows.append(
                Row(revision, write.key, stored.create_revision, previous, write.delete, stored.encoded)
            )
            outcomes.append((write, event))
        if not rows:
            return outcomes
        try:
            self._append(rows, discarded)
        except (sqlite3.Error, StoreError) as error:
            failure = error if isinstance(error, StoreError) else explain(self._log.path, error)
            return [(write, failure if isinstance(o, StoreEvent) else o) for write, o in outcomes]
        self._watermark.write(revision)
        self._revision = revision
        for key, head in overlay.items():
            if head is None:
                self._heads.pop(key, None)
                give_back(self._heads)
            else:
                self._heads[key] = head
        if discarded:
            for key in discarded:
                del self._damaged[key]
            write_report(self._log.path, Damage(tuple(sorted(self._damaged))))
        self._history_bytes += sum(len(row.value) for row in rows)
        self._tidy = False
        self.commits += 1
        return outcomes

    def _append(self, rows: list[Row], forget: list[str]) -> None:
        if self._broken:
            self._log.reopen()
            self._broken = False
        try:
            self._log.append(rows, forget)
        except sqlite3.Error:
            # Whatever state the connection is in, the next write starts from a fresh one.
            self._broken = True
            raise

    def _compact_if_due(self) -> None:
        """Drop history that no watcher can ask for any more, one step per commit, once there is much of it."""
        if self._revision - self._compacted > 2 * self._retain or self._history_bytes > HISTORY_BYTES:
            self._target = self._floor()
            self._history_bytes = 0
        if self._compacted < self._target:
            self._compact()

    def _tidy_up(self) -> None:
        """Do one step of what can wait for a quiet moment."""
        if self._history_bytes > QUIET_HISTORY_BYTES:
            self._target, self._history_bytes = self._floor(), 0
        try:
            if self._broken:
                self._tidy = True
            elif self._compacted < self._target:
                self._compact()
            else:
                self._tidy = not self._log.shrink(SHRINK_PAGES)
        except sqlite3.Error:
            self._broken = self._tidy = True

    def _compact(self) -> None:
        upto = min(self._compacted + COMPACT_STEP, self._target)
        try:
            self._log.compact(self._compacted, upto)
        except sqlite3.Error:
            self._broken = True
            return
        self._compacted = upto


def _finish(closed: Future[None]) -> None:
    if not closed.done():
        closed.set_result(None)


def _apply(write: Write, current: Stored | None, damaged: int, revision: int) -> StoreEvent:
    """Return the event that `write` makes of `current` at `revision`, or raise why it may not.

    `damaged` is the revision of what is there and cannot be read, else 0.
    """
    if damaged:
        if not write.discard:
            raise Damaged(write.key, damaged)
        return StoreEvent(DELETED, _stored(write.key, write.obj or {}, revision, revision), None)
    if current is None or write.discard:
        if write.expected or write.delete:
            raise KeyMissing(write.key)
        assert write.obj is not None
        return StoreEvent(ADDED, _stored(write.key, write.obj, revision, revision), None)
    if not write.delete and not write.expected:
        raise KeyExists(current)
    if write.expected != current.revision:
        raise RevisionMismatch(current)
    obj = current.obj if write.obj is None else write.obj
    stored = _stored(write.key, obj, revision, current.create_revision)
    return StoreEvent(DELETED if write.delete else MODIFIED, stored, current)


def _stored(key: str, obj: Object, revision: int, create_revision: int) -> Stored:
    obj = {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": str(revision)}}
    return Stored(key, revision, create_revision, _encode(obj), obj)
