"""Rows of the log, and how a row that the disk has changed is told from a whole one.

Each row carries two CRC-32 in one number: of its head (revisions, key) and of its value. SQLite checks how its
pages hang together, not what is in them.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32


class Row(NamedTuple):
    """One change. `previous_revision` is 0 for a create."""

    revision: int
    key: str
    create_revision: int
    previous_revision: int
    deleted: bool
    value: bytes


class DamagedRow(NamedTuple):
    """A row that is not what was written. `head` is as it reads; `whole_head` says that only the value is damaged."""

    head: Row
    sum_of_head: int
    whole_head: bool

    def is_of(self, key: str, current: tuple[int, int]) -> bool:
        """Return whether the row was written for `key`, whose row before it has `current` revision and create
        revision: one damaged field of the head shows itself when the right one is put in its place."""
        head, (revision, created) = self.head, current
        return any(
            _head(head._replace(key=key, create_revision=c, previous_revision=p, deleted=d))
            == self.sum_of_head
            for c in (head.create_revision, created)
            for p in (head.previous_revision, revision)
            for d in (False, True)
        )


def checksum(row: Row) -> int:
    """Return the number stored beside a row: 63 bits, which an SQLite INTEGER holds."""
    return _head(row) << 32 | crc32(row.value)


def _head(row: Row) -> int:
    text = f"{row.revision} {row.create_revision} {row.previous_revision} {row.deleted:d} {row.key}"
    return crc32(text.encode(errors="surrogateescape")) & 0x7FFFFFFF


def read(columns: tuple[Any, ...]) -> Row | DamagedRow:
    """Return what (revision, key, create_revision, previous_revision, deleted, value, checksum) hold.

    The key has to come as bytes: a damaged one is not always UTF-8.
    """
    revision, raw, *numbers, value, expected = columns
    key = raw.decode(errors="surrogateescape") if isinstance(raw, bytes) else str(raw)
    created, previous, deleted = (n if isinstance(n, int) else 0 for n in numbers)
    row = Row(
        int(revision), key, created, previous, bool(deleted), value if isinstance(value, bytes) else b""
    )
    if checksum(row) == expected and isinstance(value, bytes):
        return row
    sum_of_head = expected >> 32 if isinstance(expected, int) else -1
    return DamagedRow(row, sum_of_head, _head(row) == sum_of_head)
