"""What the disk does to a store: each damaged object is named and left out, and nothing else suffers.

Matrix: what is damaged {value, key, numbers, row of history, deletion} × {list, get, write, delete, restart}; the last
writes cut off; a file of format 1. Left out: pages that SQLite itself refuses (`test_store.py`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainshed.cli.backups import backup
from trainshed.cluster.paths import StatePaths
from trainshed.cluster.store import (
    Compacted,
    Damage,
    Damaged,
    KeyMissing,
    Store,
    Stored,
    StoreError,
    StoreFull,
    StoreReadOnly,
    read_report,
    watermark,
)
from trainshed.cluster.store.log import explain
from trainshed.cluster.store.rows import DamagedRow, Row, checksum, read

KEY = "/core/things/ns/{}"


def thing(name: str, **fields: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "uid": name}, **fields}


async def fill(path: Path, *names: str, updates: int = 0) -> dict[str, Stored]:
    """Create objects, each changed `updates` times; return them as they are at the end."""
    store = await Store.open(path)
    made = {name: await store.create(KEY.format(name), thing(name)) for name in names}
    for number in range(updates):
        for name, stored in made.items():
            made[name] = await store.update(stored.key, thing(name, number=number), stored.revision)
    await store.close()
    return made


def change(path: Path, revision: int, column: str, value: object) -> None:
    """Write to a row behind the store's back."""
    with sqlite3.connect(path) as db:
        changed = db.execute(f"UPDATE log SET {column} = ? WHERE revision = ?", (value, revision)).rowcount
        assert changed == 1
    db.close()


@pytest.mark.parametrize(
    ("refused", "kind", "told"),
    [
        (None, StoreFull, ("disk I/O error", "free some space")),
        (errno.EROFS, StoreReadOnly, ("Read-only file system", "writable")),
        (errno.EIO, StoreReadOnly, ("Input/output error", "writable")),
    ],
)
def test_a_disk_that_failed_while_it_was_in_use_is_not_called_full(
    refused: int | None,
    kind: type[StoreError],
    told: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ext4 goes read-only after an error, and access(2) does not tell; SQLite calls it an I/O error."""

    def utime(path: Path) -> None:
        if refused is not None:
            raise OSError(refused, os.strerror(refused), str(path))

    monkeypatch.setattr(os, "utime", utime)
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorname = "SQLITE_IOERR_WRITE"
    explained = explain(tmp_path / "s.db", failed)
    assert type(explained) is kind
    assert told[0] in explained.message and told[1] in explained.hint


def names(store: Store) -> list[str]:
    return [stored.obj["metadata"]["name"] for stored in store.list("/core/things/")[0]]


async def test_a_damaged_object_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", "c", updates=1)
    change(path, made["b"].revision, "value", made["b"].encoded.replace(b'"b"', b'"B"'))
    store = await Store.open(path)
    assert names(store) == ["a", "c"]
    assert store.damaged() == {made["b"].key: made["b"].revision}
    assert read_report(path) == Damage((made["b"].key,))
    with pytest.raises(Damaged, match=made["b"].key):
        store.get(made["b"].key)
    for write in (
        store.create(made["b"].key, thing("b")),
        store.update(made["b"].key, thing("b"), made["b"].revision),
        store.delete(made["b"].key, made["b"].revision),
    ):
        with pytest.raises(Damaged):
            await write
    assert (await store.update(made["a"].key, thing("a"), made["a"].revision)).revision == store.revision
    await store.close()


async def test_a_damaged_object_can_be_discarded_and_made_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", updates=2)
    change(path, made["b"].revision, "value", b"{")
    store = await Store.open(path)
    watch = store.watch("/core/things/", store.revision)
    with pytest.raises(KeyMissing):
        await store.discard(made["a"].key, thing("a"))
    gone = await store.discard(made["b"].key, thing("b"))
    assert [(e.type, e.key) for e in watch.drain()] == [("DELETED", gone.key)]
    assert store.damaged() == {} and read_report(path) == Damage()
    again = await store.create(gone.key, thing("b", new=True))
    await store.close()
    store = await Store.open(path)
    assert store.damaged() == {} and names(store) == ["a", "b"]
    found = store.get(again.key)
    assert found is not None and found.obj["new"] is True
    await store.close()


async def test_what_was_discarded_does_not_come_back(tmp_path: Path) -> None:
    """Older versions of it are in the log, and compaction takes the note of its deletion away."""
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", updates=3)
    change(path, made["b"].revision, "value", b"{")
    store = await Store.open(path)
    gone = await store.discard(made["b"].key, thing("b"))
    await store.close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM log WHERE revision = ?", (gone.revision,))
    db.close()
    store = await Store.open(path)
    assert names(store) == ["a"]
    await store.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key", "/core/things/ns/bb"),
        ("key", b"/core/thin\xffs/ns/b"),
        ("key", "/core/things"),
        ("key", None),
        ("previous_revision", 1),
        ("previous_revision", 5),
        ("create_revision", 77),
        ("deleted", 1),
        ("checksum", 1),
        ("value", "text"),
    ],
)
async def test_a_damaged_head_never_shows_an_older_version(
    tmp_path: Path, column: str, value: object
) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", "c", updates=1)
    if value is None:
        value = made["c"].key
    change(path, made["b"].revision, column, value)
    for _ in range(2):
        store = await Store.open(path)
        assert made["b"].key in store.damaged()
        assert "b" not in names(store)
        if column != "checksum":  # a lost checksum tells nothing of the rest
            assert list(store.damaged()) == [made["b"].key]
            assert names(store) == ["a", "c"]
        await store.close()


async def test_compaction_does_not_believe_a_damaged_row(tmp_path: Path) -> None:
    """It says that it replaced a row of another object: that one stays."""
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b")
    change(path, made["b"].revision, "previous_revision", made["a"].revision)
    store = await Store.open(path, retain=2)
    other = await store.create(KEY.format("z"), thing("z"))
    for number in range(20):
        other = await store.update(other.key, thing("z", number=number), other.revision)
    await store.close()
    store = await Store.open(path, retain=2)
    assert names(store) == ["a", "z"]
    assert list(store.damaged()) == [made["b"].key]
    await store.close()


async def test_damaged_history_is_compacted_for_watchers(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", updates=2)
    change(path, 4, "value", b"{")
    store = await Store.open(path)
    assert store.damaged() == {} and names(store) == ["a", "b"]
    with pytest.raises(Compacted):
        store.watch("/core/things/", 3)
    assert [e.revision for e in store.watch("/core/things/", 4).drain()] == [5, 6, 7]
    assert store.revision == made["b"].revision
    await store.close()


async def test_a_damaged_deletion_is_a_deletion(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b")
    store = await Store.open(path)
    gone = await store.delete(made["b"].key, made["b"].revision)
    await store.close()
    change(path, gone.revision, "value", b"{")
    store = await Store.open(path)
    assert store.damaged() == {} and names(store) == ["a"]
    assert store.revision == gone.revision
    await store.close()


async def test_lost_writes_are_told_and_no_revision_is_handed_out_again(tmp_path: Path) -> None:
    """The WAL was cut off: SQLite takes what is whole, and would count on from there."""
    path = tmp_path / "s.db"
    made = await fill(path, "a", "b", "c")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM log WHERE revision = ?", (made["c"].revision,))
    db.close()
    assert watermark.read(path) == made["c"].revision
    store = await Store.open(path)
    assert read_report(path) == Damage((), lost=1)
    assert names(store) == ["a", "b"] and store.revision == made["c"].revision
    with pytest.raises(Compacted):
        store.watch("/core/things/", made["b"].revision)
    assert (await store.create(made["c"].key, thing("c"))).revision == made["c"].revision + 1
    await store.close()
    store = await Store.open(path)
    assert read_report(path) == Damage() and names(store) == ["a", "b", "c"]
    await store.close()


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 12, b"\xff" * 12])
async def test_a_watermark_that_is_damaged_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    made = await fill(path, "a")
    watermark.file_of(path).write_bytes(content)
    store = await Store.open(path)
    assert store.revision == made["a"].revision
    assert watermark.read(path) == store.revision
    await store.close()


async def test_a_store_of_format_1_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "CREATE TABLE log (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, create_revision INTEGER NOT NULL,"
        " previous_revision INTEGER NOT NULL, deleted INTEGER NOT NULL, value BLOB NOT NULL);"
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
        "PRAGMA user_version=1;"
    )
    value = b'{"metadata":{"name":"a","resourceVersion":"2"}}'
    db.execute("INSERT INTO log VALUES (2, ?, 2, 0, 0, ?)", (KEY.format("a"), value))
    db.close()
    store = await Store.open(path)
    found = store.get(KEY.format("a"))
    assert found is not None and found.encoded == value
    await store.close()
    change(path, 2, "value", value.replace(b"2", b"3"))
    store = await Store.open(path)
    assert list(store.damaged()) == [KEY.format("a")]
    await store.close()


def test_a_backup_says_what_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINSHED_HOME", str(tmp_path))
    paths = StatePaths.default().prepare()
    made = asyncio.run(fill(paths.store, "a", "b"))
    change(paths.store, made["a"].revision, "value", b"{}")
    backup(tmp_path / "b.gz")
    told = capsys.readouterr().err
    assert "1 objects written" in told and "warning: not in it: things ns/a cannot be read" in told


ROW = Row(1234, KEY.format("some-name"), 1200, 1233, False, b'{"metadata":{"name":"some-name"}}')


@given(
    at=st.integers(0, len(ROW.value) + len(ROW.key) - 1),
    bit=st.integers(0, 7),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_flipped_bit_of_key_and_value_is_seen(at: int, bit: int) -> None:
    key, value = bytearray(ROW.key.encode()), bytearray(ROW.value)
    if at < len(key):
        key[at] ^= 1 << bit
    else:
        value[at - len(key)] ^= 1 << bit
    found = read((1234, bytes(key), 1200, 1233, 0, bytes(value), checksum(ROW)))
    assert isinstance(found, DamagedRow)
    assert found.whole_head is (at >= len(key))
    assert found.is_of(ROW.key, (1233, 1200))
