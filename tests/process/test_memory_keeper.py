"""What is left of many objects a while after they were deleted: nothing, in memory and in the file."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from trainshed.cluster.control.memory import ROUNDS, WORTH_OBJECTS, MemoryKeeper
from trainshed.cluster.store import Compacted, Store, Stored
from trainshed.cluster.store.window import MIN_EVENTS

COUNT = WORTH_OBJECTS + 1_000
PREFIX = "/core/pods/memory-keeper/"
"""No other test's: what those leave in this process is not counted."""


async def fill(store: Store, count: int) -> list[Stored]:
    """Return `count` new objects of 4 KiB each."""
    objects = ({"metadata": {"name": f"p{n}"}, "spec": "x" * 4096} for n in range(count))
    return await asyncio.gather(*(store.create(f"{PREFIX}p{n}", obj) for n, obj in enumerate(objects)))


async def test_what_was_deleted_leaves_memory_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await Store.open(path)
    keeper = MemoryKeeper(store)
    made = await fill(store, COUNT)
    created = store.revision
    assert not keeper.look(), "nothing was deleted"
    await asyncio.gather(*(store.delete(stored.key, stored.revision) for stored in made))
    del made
    # The writer's thread may still be on its way out of the last commit, whose objects it holds: not of the one before.
    await store.create(f"{PREFIX}after", {"metadata": {"name": "after"}})
    begun = store.revision
    assert keeper.look(), "much was deleted"
    assert keeper.look(), "and its history is old now"
    gc.collect()
    here = [o for o in gc.get_objects() if type(o) is Stored and o.key.startswith(PREFIX)]
    assert sum(stored.revision <= created for stored in here) <= 2 * MIN_EVENTS
    with pytest.raises(Compacted):
        store.watch("/core/pods/", begun - COUNT)
    assert store.watch("/core/pods/", store.revision) is not None
    async with asyncio.timeout(60):
        while path.stat().st_size > 3 * 2**20:
            await asyncio.sleep(0.02)
    await store.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 3 * 2**20, "6 MiB of objects were in it"


async def test_history_stays_while_nothing_much_is_deleted(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db")
    keeper = MemoryKeeper(store)
    made = await fill(store, 300)
    await asyncio.gather(*(store.delete(stored.key, stored.revision) for stored in made))
    for _ in range(ROUNDS):
        assert not keeper.look()
    watch = store.watch("/core/pods/", 1)
    assert len(await watch.batch()) == 600
    await store.close()
