"""Gives memory back to the system after many objects were deleted."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc

from trainshed.cluster.store import Store

LOOK_EVERY_SECONDS = 15.0
ROUNDS = 4
"""How often it is done then: events and history go later than their objects."""
WORTH_OBJECTS = 500
"""How many objects fewer than at the last look make it worth while."""


_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
LARGE_BYTES = 128 * 1024


def keep_one_heap() -> None:
    """Have all threads of this process share a heap, and what is large lie outside of it (mallopt(3), glibc).

    Otherwise each thread litters a heap of its own, and after the first long list the next ones go into them, too: a
    tenth more stays of ten thousand objects that are gone.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 1)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


class MemoryKeeper:
    """Trims the heap whenever the store has become smaller: the C library keeps freed memory for itself otherwise.

    The history goes first, but for that since the last look: it is most of what is left then, objects that are gone.
    What stays is moved together: an event of 2 KiB is else all that is left on a page of pods that are gone.
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
                await self.give_back()

    async def give_back(self) -> None:
        """Give what objects have left to the system."""
        await self._store.draw_together()
        await asyncio.to_thread(_trim)

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


def _trim() -> None:
    """Return free pages of the heap to the system, where the C library can (malloc_trim(3), glibc)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
