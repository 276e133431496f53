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


class MemoryKeeper:
    """Trims the heap whenever the store has become smaller: the C library keeps freed memory for itself otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> None:
        """Look until cancelled."""
        before, rounds = len(self._store), 0
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            now = len(self._store)
            if now <= before - WORTH_OBJECTS:
                rounds = ROUNDS
            before = now if rounds else max(before, now)
            if rounds:
                rounds -= 1
                gc.collect()
                await asyncio.to_thread(_trim)


def _trim() -> None:
    """Return free pages of the heap to the system, where the C library can (malloc_trim(3), glibc)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
