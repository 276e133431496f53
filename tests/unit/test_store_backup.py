"""Backups: what is written comes back whole, or is refused; revisions go on."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from trainshed.cluster.paths import StatePaths
from trainshed.cluster.store import Compacted, Store
from trainshed.cluster.store.backup import BackupError, dump, read, restore, sealed
from trainshed.sdk import backups
from trainshed.sdk.errors import UserError

KEY = "/core/things/ns/{}"


def thing(name: str, **fields: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "text": "a\nb\u2028c", **fields}


async def lines_of(store: Store) -> list[bytes]:
    return list(sealed(dump(*store.list("/"))))


async def test_objects_come_back_with_their_revisions(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    a = await store.create(KEY.format("a"), thing("a"))
    b = await store.create(KEY.format("b"), thing("b"))
    b = await store.update(b.key, thing("b", n=1), b.revision)
    lines = await lines_of(store)
    later = await store.create(KEY.format("later"), thing("later"))
    await store.delete(a.key, a.revision)
    last = store.revision
    await store.close()

    kept = restore(tmp_path / "s.db", read(lines))
    assert kept is not None and (kept / "s.db").exists()
    for _ in range(2):
        store = await Store.open(tmp_path / "s.db")
        found = {s.key: (s.revision, s.create_revision, s.encoded) for s in store.list("/")[0]}
        assert found == {s.key: (s.revision, s.create_revision, s.encoded) for s in (a, b)}
        assert store.revision == last, "no revision is handed out twice"
        assert store.get(later.key) is None and store.damaged() == {}
        with pytest.raises(Compacted):
            store.watch("/core/things/", last - 1)
        await store.close()
    store = await Store.open(tmp_path / "s.db")
    assert (await store.update(b.key, thing("b"), b.revision)).revision == last + 1
    await store.close()


async def test_a_backup_goes_to_an_empty_place(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    made = await store.create(KEY.format("a"), thing("a"))
    lines = await lines_of(store)
    await store.close()
    (tmp_path / "new").mkdir()
    assert restore(tmp_path / "new" / "s.db", read(lines)) is None
    store = await Store.open(tmp_path / "new" / "s.db")
    assert store.revision == made.revision and len(store) == 1
    await store.close()


async def test_what_is_not_whole_is_refused(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    for name in "abc":
        await store.create(KEY.format(name), thing(name))
    lines = await lines_of(store)
    await store.close()
    for wrong in (
        [],
        lines[:1],
        lines[:-1],
        lines[:2] + lines[3:],
        [*lines[:2], lines[2].replace(b'"b"', b'"x"'), *lines[3:]],
        [lines[0].replace(b"backup/1", b"backup/9"), *lines[1:]],
        [b"hello\n"],
        [b"\xff\n", *lines],
    ):
        with pytest.raises(BackupError):
            read(wrong)


def test_the_file_is_private_and_an_older_one_stays_when_it_cannot_be_written(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path / "home").prepare()
    with pytest.raises(UserError, match="no cluster"):
        backups.backup(paths, tmp_path / "b.gz")

    async def fill() -> None:
        store = await Store.open(paths.store)
        await store.create(KEY.format("a"), thing("a"))
        await store.close()

    asyncio.run(fill())
    file = tmp_path / "b.gz"
    file.write_text("older")
    assert backups.backup(paths, file) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="cannot write"):
        backups.backup(paths, tmp_path / "no" / "b.gz")
    assert backups.restore(paths, file)[0] == 1
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UserError, match="cannot"):
        backups.restore(paths, file)
    file.write_bytes(gzip.compress(b"hello"))
    with pytest.raises(UserError, match=r"no backup of trainshed's"):
        backups.restore(paths, file)
