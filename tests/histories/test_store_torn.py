"""A file of the store that was cut off or torn anywhere: it opens with what was acknowledged up to some moment, or it
is refused with the way back.

Matrix: {database, WAL} × {cut, zeros, noise from there on} × places all over it, in a store whose last writes are in
the WAL. An object that is not as it was written is named, and shows neither an older version nor nothing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from trainshed.cluster.store import Store, StoreError, read_report, watermark

KEYS = [f"/core/things/ns/{name}" for name in "abcdefgh"]
WRITES = 240
PLACES = 30
State = dict[str, int]


def thing(value: int) -> dict[str, Any]:
    """Return an object with enough in it that a dozen of them fill a page."""
    return {"metadata": {"name": "x"}, "value": value, "text": f"{value:04d}" * 60}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, State]]:
    """A store as a power cut leaves it, half of it in the WAL, and what it held after each revision."""
    return asyncio.run(_write_all(tmp_path_factory.mktemp("torn")))


async def _write_all(home: Path) -> tuple[Path, dict[int, State]]:
    draw = random.Random(7)
    states: dict[int, State] = {1: {}}
    revisions: dict[str, int] = {}

    async def write(store: Store, value: int) -> None:
        key = draw.choice(KEYS)
        state = dict(states[store.revision])
        if key not in revisions:
            stored = await store.create(key, thing(value))
        elif draw.random() < 0.2:
            stored = await store.delete(key, revisions[key])
            del revisions[key], state[key]
            states[stored.revision] = state
            return
        else:
            stored = await store.update(key, thing(value), revisions[key])
        revisions[key], state[key] = stored.revision, value
        states[stored.revision] = state

    store = await Store.open(home / "s.db")
    for value in range(WRITES // 2):
        await write(store, value)
    await store.close()  # folds the WAL into the database
    store = await Store.open(home / "s.db")
    for value in range(WRITES // 2, WRITES):
        await write(store, value)
    left = home / "left"
    left.mkdir()
    for path in home.glob("s.db*"):
        if not path.name.endswith("-shm"):
            shutil.copy(path, left)
    await store.close()
    assert (left / "s.db-wal").stat().st_size > 100_000
    return left, states


def damage(path: Path, at: int, how: str) -> None:
    """Change the file from byte `at` on."""
    data = path.read_bytes()
    tail = len(data) - at
    rest = {"cut": b"", "zeros": bytes(tail), "noise": random.Random(at).randbytes(tail)}[how]
    path.write_bytes(data[:at] + rest)


def places(size: int) -> list[int]:
    """Return bytes all over a file, more of them at its beginning and around borders of pages."""
    spread = [size * n // PLACES for n in range(PLACES)]
    return sorted({0, 1, 15, 16, 31, 32, 33, 99, 100, 4095, 4096, 4097, 4152, size - 1, *spread})


@pytest.mark.parametrize("name", ["s.db-wal", "s.db"])
@pytest.mark.parametrize("how", ["cut", "zeros", "noise"])
async def test_what_opens_is_what_was_acknowledged(
    written: tuple[Path, dict[int, State]], tmp_path: Path, name: str, how: str
) -> None:
    left, states = written
    opened = refused = 0
    for at in places((left / name).stat().st_size):
        home = tmp_path / str(at)
        shutil.copytree(left, home)
        damage(home / name, at, how)
        try:
            store = await Store.open(home / "s.db")
        except StoreError as error:
            refused += 1
            assert "s.db" in error.message and "restore" in error.hint, (at, error.message, error.hint)
            continue
        opened += 1
        try:
            await _check(store, home, states, at)
        finally:
            await store.close()
        shutil.rmtree(home)
    assert (opened if name == "s.db-wal" else refused) > PLACES // 2, (opened, refused)


async def _check(store: Store, home: Path, states: dict[int, State], at: int) -> None:
    last = max(states)
    lost = read_report(home / "s.db").lost
    assert 0 <= lost < last, at
    whole = states[last - lost]
    damaged = set(store.damaged())
    found = {stored.key: stored.obj["value"] for stored in store.list("/core/things/")[0]}
    assert found == {key: value for key, value in whole.items() if key not in damaged}, (at, lost)
    assert all(key in KEYS for key in damaged), (at, damaged)
    assert watermark.read(home / "s.db") >= last, at
    made = await store.create("/core/things/ns/new", thing(0))
    assert made.revision > last, (at, "a revision was handed out twice")
