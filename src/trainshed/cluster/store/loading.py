"""From the rows of a log to what the store serves: current objects, events to replay, and what is damaged."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.store.keys import is_key
from trainshed.cluster.store.model import ADDED, DELETED, MODIFIED, EventType, Stored, StoreEvent
from trainshed.cluster.store.rows import DamagedRow, Row


class Loaded:
    """What the log held, replayed in order.

    A damaged row leaves a gap: events can be replayed only from after it. If it is the newest of its key, that object
    is in `damaged`, whatever older rows say. Where the key itself is in doubt, so is every object that it may be.
    """

    def __init__(self, rows: Iterable[Row | DamagedRow], compacted: int, retain: int) -> None:
        self.heads: dict[str, Stored] = {}
        self.damaged: dict[str, int] = {}
        self.untrusted: list[int] = []
        """Revisions of rows that say wrong things about others."""
        self.events: list[StoreEvent] = []
        self.compacted = compacted
        self.revision = compacted
        self._keys: dict[int, str] = {}
        for row in rows:
            if isinstance(row, Row):
                self._replay(row)
            else:
                self._quarantine(row)
            if len(self.events) > 2 * retain:
                del self.events[:retain]
        del self._keys
        self.floor = self.events[0].revision - 1 if self.events else self.revision

    def _replay(self, row: Row) -> None:
        stored = Stored(row.key, row.revision, row.create_revision, row.value)
        self._keys.pop(row.previous_revision, None)
        self._keys[row.revision] = row.key
        previous = self.heads.get(row.key)
        self.damaged.pop(row.key, None)
        if row.deleted:
            self.heads.pop(row.key, None)
        else:
            self.heads[row.key] = stored
        if row.revision > self.compacted:
            if row.revision != self.revision + 1:
                self.events.clear()
            self.revision = row.revision
            type_: EventType = DELETED if row.deleted else MODIFIED if row.previous_revision else ADDED
            self.events.append(StoreEvent(type_, stored, previous))

    def _quarantine(self, row: DamagedRow) -> None:
        head = row.head
        if not row.whole_head:
            self.untrusted.append(head.revision)
        for key in filter(is_key, self._keys_of(row)):
            self.heads.pop(key, None)
            if row.whole_head and head.deleted:
                self.damaged.pop(key, None)
            else:
                self.damaged[key] = head.revision
                self._keys[head.revision] = key
        if head.revision > self.compacted:
            self.revision = head.revision
            self.events.clear()

    def _keys_of(self, row: DamagedRow) -> list[str]:
        """Return the key of a damaged row, or all that come into question."""
        if row.whole_head:
            return [row.head.key]
        found = list(dict.fromkeys((row.head.key, self._keys.get(row.head.previous_revision, row.head.key))))
        for key in found:
            current = self.heads.get(key)
            if row.is_of(key, (current.revision, current.create_revision) if current else (0, 0)):
                return [key]
        return found

    def advance(self, revision: int) -> int:
        """Go on at `revision`, as if the writes up to it had been compacted; return how many are missing."""
        missing = max(revision - self.revision, 0)
        if missing:
            self.revision = self.compacted = self.floor = revision
            self.events.clear()
        return missing
