"""Gives memory back to the system after many objects were deleted."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import threading
from collections.abc import Callable, Sequence
from functools import partial

from trainshed.cluster.store import Store, Stored

LOOK_EVERY_SECONDS = 15.0
ROUNDS = 4
"""How often it is done then: events and history go later than their objects."""
WORTH_OBJECTS = 500
"""How many objects fewer than at the last look make it worth while."""


class MemoryKeeper:
    """Trims the heap whenever the store has become smaller: the C library keeps freed memory for itself otherwise.

    The history goes first, but for that since the last look: it is most of what is left then, objects that are gone.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._objects = len(store)
        self._revision = store.revision
        self._rounds = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            if self.look():
                await _in_new_thread(partial(give_back, self._store.all()))

    def look(self) -> bool:
        """Look at the store; return whether the heap is to be trimmed."""
        now = len(self._store)
        if now <= self._objects - WORTH_OBJECTS:
            self._rounds = ROUNDS
        due = self._rounds > 0
        self._objects = now if due else max(self._objects, now)
        if due:
            self._rounds -= 1
            self._store.forget(self._revision)
            gc.collect()
        self._revision = self._store.revision
        return due


async def _in_new_thread(work: Callable[[], None]) -> None:
    """Do it in a thread that has not existed before: glibc gives it a heap that nobody else has littered."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="memory", daemon=True).start()
    await done.wait()


def give_back(left: Sequence[Stored]) -> None:
    """Return free memory to the system, where the C library can (malloc_trim(3), glibc).

    What is left of the objects is moved together first. Of a thousand pods that came with an event each, all deleted,
    the events would keep nearly every page: one lies in each.
    """
    for stored in left:
        stored.move()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
