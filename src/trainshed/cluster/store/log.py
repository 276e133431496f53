"""The file: one SQLite database holding an append-only log of revisions.

Each row is one change: its revision, the key, the revision it replaced, and the whole object after it (for
a deletion the last state, `deleted` set). The idea is kine's. The newest row of a key is its current state;
older rows serve watchers that come back, until they are compacted away.

Only the writer thread uses a `Log`. WAL with `synchronous=FULL`: a commit that returned is on the disk.
`locking_mode=EXCLUSIVE`: a second process gets an error instead of a second writer.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trainshed.cluster.store.errors import StoreError

SCHEMA_VERSION = 1
FIRST_REVISION = 1
"""The revision of an empty store. "0" means "any" on the wire, so it is never handed out."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    create_revision INTEGER NOT NULL,
    previous_revision INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


class Row(NamedTuple):
    """One change. `previous_revision` is 0 for a create."""

    revision: int
    key: str
    create_revision: int
    previous_revision: int
    deleted: bool
    value: bytes


class Log:
    """The open file. Raises `StoreError` from the constructor, `sqlite3.Error` from everything else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _create_private(path)
        self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = None
        try:
            # Opened by one thread, then used by the writer alone: never by two at a time.
            db = sqlite3.connect(self.path, isolation_level=None, timeout=1.0, check_same_thread=False)
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA wal_autocheckpoint=2000")
            db.execute("PRAGMA journal_size_limit=16777216")
            self._check_version(db)
            db.executescript(_SCHEMA)
            found = db.execute("PRAGMA quick_check(1)").fetchone()
            if found[0] != "ok":
                raise sqlite3.DatabaseError(found[0])
        except sqlite3.Error as error:
            if db is not None:
                db.close()
            raise explain(self.path, error) from error
        except StoreError:
            if db is not None:
                db.close()
            raise
        return db

    def _check_version(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.path} was written by a newer release (format {version})",
                "upgrade trainshed, or start with an empty state directory",
            )
        if version == 0:
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def rows(self) -> Iterator[Row]:
        """Yield every retained row, oldest first."""
        query = (
            "SELECT revision, key, create_revision, previous_revision, deleted, value FROM log"
            " ORDER BY revision"
        )
        for revision, key, created, previous, deleted, value in self._db.execute(query):
            yield Row(revision, key, created, previous, bool(deleted), value)

    def compacted(self) -> int:
        """Return the revision up to which superseded rows are gone."""
        row = self._db.execute("SELECT value FROM meta WHERE name='compacted'").fetchone()
        return row[0] if row else FIRST_REVISION

    def append(self, rows: Iterable[Row]) -> None:
        """Write `rows` in one durable transaction: all of them or, when this raises, none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def compact(self, after: int, upto: int) -> None:
        """Remove rows superseded, and deletions made, at revisions in (`after`, `upto`]; remember `upto`."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute(
                "DELETE FROM log WHERE revision IN (SELECT previous_revision FROM log"
                " WHERE revision > ? AND revision <= ? AND previous_revision > 0)",
                (after, upto),
            )
            self._db.execute(
                "DELETE FROM log WHERE revision > ? AND revision <= ? AND deleted", (after, upto)
            )
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (upto,))
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        """End the failed transaction. After an I/O error SQLite may have done so itself."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def reopen(self) -> None:
        """Close and open again: the way back from an error that left the connection unusable."""
        self.close()
        self._db = self._connect()

    def close(self) -> None:
        """Close the file; SQLite folds the WAL into it."""
        self._db.close()


def _create_private(path: Path) -> None:
    """Create the file with mode 0600; SQLite gives its WAL the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"cannot open the store {path}: {error.strerror}", _os_hint(path, error)) from error


def _os_hint(path: Path, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"make {path.parent} writable for this user, or set TRAINSHED_HOME to a directory that is"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"free some space on the file system of {path.parent}"
    return f"check {path.parent}, or set TRAINSHED_HOME to another directory"


def explain(path: Path, error: sqlite3.Error) -> StoreError:
    """Return `error` as a message with what to do about it."""
    text = str(error)
    code = getattr(error, "sqlite_errorname", "") or ""
    if "FULL" in code or "IOERR" in code:
        return StoreError(
            f"cannot write the store {path}: {text}",
            f"free some space on the file system of {path.parent}; writes work again once there is room",
        )
    if "BUSY" in code or "LOCKED" in code:
        return StoreError(
            f"the store {path} is in use by another process",
            "another control plane uses this state directory: stop it, or set TRAINSHED_HOME to another one",
        )
    if "READONLY" in code or "CANTOPEN" in code or "PERM" in code:
        return StoreError(
            f"cannot write the store {path}: {text}",
            f"make {path.parent} writable for this user, or set TRAINSHED_HOME to a directory that is",
        )
    return StoreError(
        f"the store {path} is damaged: {text}",
        f"move {path.name}* in {path.parent} away to start empty, or restore them from a backup",
    )
