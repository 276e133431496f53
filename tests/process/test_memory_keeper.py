"""What is left of many objects a while after they were deleted: nothing, in memory and in the file."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
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


_LEFT = """
import asyncio, os, sys
from pathlib import Path
from trainshed.cluster.control.launcher import rss_bytes
from trainshed.cluster.control.memory import MemoryKeeper, keep_one_heap
from trainshed.cluster.store import Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    keeper = MemoryKeeper(store)
    before = rss_bytes(os.getpid())
    made = []
    for start in range(0, 8000, 80):
        objects = []
        for number in range(start, start + 80):
            objects.append((f"/core/pods/x/p{number}", {"metadata": {}, "x": "x" * 3500}))
            if number % 4 == 0:
                objects.append((f"/core/events/x/p{number}", {"metadata": {}, "x": "x" * 1500}))
        made += await asyncio.gather(*(store.create(*each) for each in objects))
    made = [stored for stored in made if "/pods/" in stored.key]
    keeper.look()
    full = rss_bytes(os.getpid())
    for start in range(0, 8000, 250):
        await asyncio.gather(*(store.delete(s.key, s.revision) for s in made[start : start + 250]))
    del made, objects
    while keeper.look():
        await keeper.give_back()
    held = sum(len(s.encoded) for s in store.list("/")[0])
    print((full - before) >> 20, (rss_bytes(os.getpid()) - before) >> 20, held >> 20)
    await store.close()

asyncio.run(main())
"""


def test_what_stays_holds_no_pages_of_what_went(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LEFT, str(tmp_path / "store.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    full, left, held = map(int, done.stdout.split())
    assert full > 30 and held == 2, "8,000 objects of 3.5 KiB, of 1.5 KiB a quarter as many, which stay"
    assert left <= 12, f"{left} MiB more than before, of {full}"
