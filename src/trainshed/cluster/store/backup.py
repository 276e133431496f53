"""A store as lines of text, and back: one header, one line per object, a checksum.

Objects only: neither history nor what is damaged. The lines are JSON, so that a person can find an object with `zgrep`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from trainshed.cluster.store import watermark
from trainshed.cluster.store.damage import file_of as damage_file_of
from trainshed.cluster.store.keys import is_key
from trainshed.cluster.store.log import Log
from trainshed.cluster.store.model import Stored
from trainshed.cluster.store.rows import Row
from trainshed.cluster.store.transform import MARK, PLAIN, Transformer

FORMAT = "trainshed-backup/1"


class BackupError(Exception):
    """The lines are no whole backup."""


class Header(msgspec.Struct, frozen=True):
    """What a backup holds."""

    format: str
    revision: int
    objects: int


class _Line(msgspec.Struct):
    key: str
    revision: int
    create_revision: int
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    encrypted: bytes | msgspec.UnsetType = msgspec.UNSET
    """What stands on the disk for the value, where that is encrypted."""


class _End(msgspec.Struct, frozen=True):
    sha256: str


class Backup(msgspec.Struct, frozen=True):
    """A backup that was read, whole."""

    header: Header
    rows: list[Row]


_encode = msgspec.json.Encoder().encode


def dump(objects: Iterable[Stored], revision: int, transformer: Transformer = PLAIN) -> Iterator[bytes]:
    """Yield the lines of a backup of a state, but for the last. What is encrypted on the disk is so in them."""
    objects = list(objects)
    yield _encode(Header(FORMAT, revision, len(objects))) + b"\n"
    for stored in objects:
        line = _Line(stored.key, stored.revision, stored.create_revision)
        written = transformer.written(stored.key, stored.encoded)
        if written.startswith(MARK):
            line.encrypted = written
        else:
            line.value = msgspec.Raw(written)
        yield _encode(line) + b"\n"


def sealed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines and a last one that tells whether they are whole."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
        yield line
    yield _encode(_End(digest.hexdigest())) + b"\n"


def read(lines: Iterable[bytes]) -> Backup:
    """Return what the lines hold. Raises BackupError."""
    digest = hashlib.sha256()
    header: Header | None = None
    rows: list[Row] = []
    last = b""
    try:
        for line in lines:
            if header is None:
                header = msgspec.json.decode(line, type=Header)
                if header.format != FORMAT:
                    raise BackupError(f"the format is {header.format}, this release reads {FORMAT}")
                digest.update(line)
                continue
            if last:
                digest.update(last)
                rows.append(_row(last))
            last = line
        end = msgspec.json.decode(last, type=_End)
    except (msgspec.DecodeError, EOFError, OSError, ValueError) as error:
        raise BackupError(f"it is no backup of trainshed's, or cut off: {error}") from error
    if header is None or end.sha256 != digest.hexdigest() or len(rows) != header.objects:
        raise BackupError("it is damaged: its checksum does not fit")
    return Backup(header, rows)


def _row(line: bytes) -> Row:
    entry = msgspec.json.decode(line, type=_Line)
    if not is_key(entry.key):
        raise ValueError(f"{entry.key} is no key")
    value = entry.encrypted if isinstance(entry.encrypted, bytes) else entry.value
    if isinstance(value, msgspec.UnsetType):
        raise ValueError(f"{entry.key} has no value")
    return Row(entry.revision, entry.key, entry.create_revision, 0, False, bytes(value))


def restore(store: Path, backup: Backup) -> Path | None:
    """Put a new store in the place of `store`; return the directory that holds the old one now, if there was one.

    Revisions go on after the last that the old one has handed out. Nobody else may have the store open.

    Raises:
        OSError, sqlite3.Error, StoreError: it cannot be written. The old one is then in its place.
    """
    new = store.with_name(f"{store.name}.new")
    for path in _files(new):
        path.unlink()
    log = Log(new)
    try:
        log.append(sorted(backup.rows))
        upto = max(backup.header.revision, watermark.read(store))
        log.compact(upto, upto)
    finally:
        log.close()
    kept = None
    if store.exists():
        kept = _free_name(store)
        kept.mkdir(mode=0o700)
        for path in _files(store):
            if path != watermark.file_of(store):  # it goes on counting
                path.rename(kept / path.name)
    new.rename(store)
    return kept


def _files(store: Path) -> list[Path]:
    """Return the files of a store that exist."""
    names = (store.name, f"{store.name}-wal", f"{store.name}-shm", damage_file_of(store).name)
    paths = [store.with_name(name) for name in names]
    return [path for path in (*paths, watermark.file_of(store)) if path.exists()]


def _free_name(store: Path) -> Path:
    number = 1
    while (path := store.with_name(f"before-restore-{number}")).exists():
        number += 1
    return path
