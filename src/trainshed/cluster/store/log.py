"""The file: one SQLite database holding an append-only log of revisions.

Each row is one change: its revision, the key, the revision it replaced, and the whole object after it (for
a deletion the last state, `deleted` set), with a checksum. The idea is kine's. The newest row of a key is its current
state; older rows serve watchers that come back, until they are compacted away. Pages that this frees go back to
the file system (`shrink`).

Only the writer thread uses a `Log`. WAL with `synchronous=FULL`: a commit that returned is on the disk.
`locking_mode=EXCLUSIVE`: a second process gets an error instead of a second writer.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from trainshed.cluster.store.errors import StoreError, StoreFull, StoreReadOnly
from trainshed.cluster.store.rows import DamagedRow, Row, checksum, read
from trainshed.cluster.store.transform import PLAIN, Transformer

SCHEMA_VERSION = 2
FIRST_REVISION = 1
"""The revision of an empty store. "0" means "any" on the wire, so it is never handed out."""

SHRINK_FROM_BYTES = 2 * 1024 * 1024
"""Free pages that the file may keep for the next writes, or a quarter of it."""
_NO_WRITING = (errno.EACCES, errno.EPERM, errno.EROFS)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    create_revision INTEGER NOT NULL,
    previous_revision INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    value BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

_SELECT = "SELECT revision, CAST(key AS BLOB), create_revision, previous_revision, deleted, value, checksum FROM log"
_TOGETHER = 64
"""Rows that are written by one statement, which is then a transaction of its own. Python's lock is given up, and has to
be had again from the event loop, once for each statement and for each row of `executemany`."""
_DELETE_SUPERSEDED = """
DELETE FROM log WHERE revision IN (
    SELECT previous_revision FROM log
    WHERE revision > :after AND revision <= :upto AND previous_revision > 0
        AND revision NOT IN (SELECT value FROM json_each(:untrusted))
)"""
_DELETE_DELETIONS = """
DELETE FROM log
WHERE revision > :after AND revision <= :upto AND deleted
    AND revision NOT IN (SELECT value FROM json_each(:untrusted))"""


class Log:
    """The open file. Raises `StoreError` from the constructor, `sqlite3.Error` from everything else."""

    def __init__(self, path: Path, transformer: Transformer = PLAIN) -> None:
        self.path = path
        self._transformer = transformer
        self.untrusted: list[int] = []
        """Revisions of rows whose word about other rows is not to be taken."""
        _create_private(path)
        self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = None
        try:
            # Opened by one thread, then used by the writer alone: never by two at a time.
            db = sqlite3.connect(self.path, isolation_level=None, timeout=1.0, check_same_thread=False)
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # counts for a new file, which WAL mode would begin
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA wal_autocheckpoint=2000")
            db.execute("PRAGMA journal_size_limit=16777216")
            # What is overwritten or deleted leaves no trace, so that nothing can be read that was encrypted since.
            db.execute(f"PRAGMA secure_delete={'OFF' if self._transformer is PLAIN else 'ON'}")
            db.execute("PRAGMA cache_size=-512")  # KiB: it is read once, then written at its end
            version = self._version(db)
            found = db.execute("PRAGMA quick_check(1)").fetchone()
            if found[0] != "ok":
                raise sqlite3.DatabaseError(found[0])
            if version == 1:
                _migrate_from_1(db)
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        except sqlite3.Error as error:
            if db is not None:
                db.close()
            raise explain(self.path, error) from error
        except StoreError:
            if db is not None:
                db.close()
            raise
        return db

    def _version(self, db: sqlite3.Connection) -> int:
        version: int = db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.path} was written by a newer release (format {version})",
                "upgrade trainshed, or start with an empty state directory",
            )
        return version

    def rows(self) -> Iterator[Row | DamagedRow]:
        """Yield every retained row, oldest first. Raises Undecipherable for one that no key fits."""
        for row in self._stored_rows():
            if isinstance(row, Row):
                yield row._replace(value=self._transformer.read(row.key, row.value))
            else:
                yield row

    def _stored_rows(self) -> Iterator[Row | DamagedRow]:
        for columns in self._db.execute(f"{_SELECT} ORDER BY revision"):
            yield read(columns)

    def compacted(self) -> int:
        """Return the revision up to which superseded rows are gone."""
        row = self._db.execute("SELECT value FROM meta WHERE name='compacted'").fetchone()
        return row[0] if row else FIRST_REVISION

    def append(self, rows: Sequence[Row], forget: Sequence[str] = ()) -> None:
        """Write `rows` in one durable transaction: all of them or, when this raises, none.

        Of the keys in `forget` every older row is removed, and so is the row that each of `rows` replaces of them.
        """
        transformer = self._transformer
        if transformer is not PLAIN:
            rows = [row._replace(value=transformer.written(row.key, row.value)) for row in rows]
        if not forget and 0 < len(rows) <= _TOGETHER:
            self._db.execute(_insert(len(rows)), [value for row in rows for value in (*row, checksum(row))])
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for key in forget:
                replaced = [row.previous_revision for row in rows if row.key == key]
                self._db.execute("DELETE FROM log WHERE key = ?", (key,))
                self._db.executemany("DELETE FROM log WHERE revision = ?", ((r,) for r in replaced))
            self._db.executemany(_insert(1), ((*row, checksum(row)) for row in rows))
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def rewrite(self) -> int:
        """Write anew what is on the disk in another form than the transformer's; return how many rows were.

        Nothing of the old form is left in the file or its WAL.
        """
        stale = [
            row.revision
            for row in self._stored_rows()
            if isinstance(row, Row) and self._transformer.is_stale(row.key, row.value)
        ]
        if not stale:
            return 0
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for revision in stale:
                (columns,) = self._db.execute(f"{_SELECT} WHERE revision = ?", (revision,)).fetchall()
                row = read(columns)
                assert isinstance(row, Row)
                plain = self._transformer.read(row.key, row.value)
                row = row._replace(value=self._transformer.written(row.key, plain))
                self._db.execute(
                    "UPDATE log SET value = ?, checksum = ? WHERE revision = ?",
                    (row.value, checksum(row), revision),
                )
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return len(stale)

    def compact(self, after: int, upto: int) -> None:
        """Remove rows superseded, and deletions made, at revisions in (`after`, `upto`]; remember `upto`."""
        rows = {"after": after, "upto": upto, "untrusted": json.dumps(self.untrusted)}
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute(_DELETE_SUPERSEDED, rows)
            self._db.execute(_DELETE_DELETIONS, rows)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (upto,))
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def shrink(self, pages: int) -> bool:
        """Give back up to `pages` free pages to the file system; return whether it is worth going on.

        Free pages are left for the next writes while they are few.
        """
        free, total, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("freelist_count", "page_count", "page_size")
        )
        if free * size < SHRINK_FROM_BYTES or free * 4 < total:
            return False
        # A step of the statement gives back one page, as a row without columns, after which `execute` stops.
        self._db.executescript(f"PRAGMA incremental_vacuum({pages})")
        left: int = self._db.execute("PRAGMA freelist_count").fetchone()[0]
        if left < free and left * size >= SHRINK_FROM_BYTES and left * 4 >= total - (free - left):
            return True
        # The file gets shorter only with a checkpoint.
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return False

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


@cache
def _insert(rows: int) -> str:
    return "INSERT INTO log VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)  # noqa: S608 - no text of others


def _create_private(path: Path) -> None:
    """Create the file with mode 0600; SQLite gives its WAL the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        kind = StoreReadOnly if error.errno in _NO_WRITING else StoreError
        raise kind(f"cannot open the store {path}: {error.strerror}", _os_hint(path, error)) from error


def _migrate_from_1(db: sqlite3.Connection) -> None:
    """Give the rows of a format without checksums theirs, and the file the means to shrink."""

    def of(*columns: Any) -> int:
        return checksum(Row(*columns))

    db.create_function("row_checksum", 6, of, deterministic=True)
    db.execute("BEGIN IMMEDIATE")
    db.execute("ALTER TABLE log ADD COLUMN checksum INTEGER")
    db.execute(
        "UPDATE log SET checksum ="
        " row_checksum(revision, key, create_revision, previous_revision, deleted, value)"
    )
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    db.execute("COMMIT")
    try:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("VACUUM")
    except sqlite3.Error:
        pass  # no room for a second copy: the file stays as long as it is


def _os_hint(path: Path, error: OSError) -> str:
    if error.errno in _NO_WRITING:
        return f"make {path.parent} writable for this user, or set TRAINSHED_HOME to a directory that is"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"free some space on the file system of {path.parent}"
    return f"check {path.parent}, or set TRAINSHED_HOME to another directory"


def _refusal(directory: Path) -> str:
    """Return why no file may be changed in a directory; empty where that is not known to be so.

    access(2) alone does not do: it knows nothing of a file system that has gone read-only after an error.
    """
    try:
        os.utime(directory)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(directory, os.W_OK) else os.strerror(errno.EROFS)


def explain(path: Path, error: sqlite3.Error) -> StoreError:
    """Return `error` as a message with what to do about it."""
    text = str(error)
    code = getattr(error, "sqlite_errorname", "") or ""
    if "IOERR" in code and (refused := _refusal(path.parent)):
        text, code = refused, "READONLY"  # SQLite says only that something failed
    if "FULL" in code or "IOERR" in code:
        return StoreFull(
            f"cannot write the store {path}: {text}",
            f"free some space on the file system of {path.parent}; writes work again once there is room",
        )
    if "BUSY" in code or "LOCKED" in code:
        return StoreError(
            f"the store {path} is in use by another process",
            "another control plane uses this state directory: stop it, or set TRAINSHED_HOME to another one",
        )
    if "READONLY" in code or "CANTOPEN" in code or "PERM" in code:
        return StoreReadOnly(
            f"cannot write the store {path}: {text}",
            f"make {path.parent} writable for this user, or set TRAINSHED_HOME to a directory that is",
        )
    return StoreError(
        f"the store {path} is damaged: {text}",
        f"put back what trainshed backup made with trainshed restore, or move {path.name}* in {path.parent} away to"
        " start empty",
    )
