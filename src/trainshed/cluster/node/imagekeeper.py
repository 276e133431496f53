"""Keeps the store of images within its budget, as a kubelet does: looks every five minutes, and after each pull.

Events are the kubelet's (pkg/kubelet/images/image_gc_manager.go and kubelet.go, v1.33): `FreeDiskSpaceFailed` when less
may go than has to, `ImageGCFailed` from the second failure in a row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.store import garbage
from trainshed.cluster.images.store.garbage import Busy, Shrunk
from trainshed.cluster.images.store.space import read_space
from trainshed.cluster.images.store.store import ImageStore
from trainshed.kube.meta.plan import Event

log = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
BUSY_SECONDS = 10.0
"""How long to wait where something is being pulled or built."""


class ImageKeeper:
    """`pods` holds the notes of pods, `space` is the file of the budget; `tell` records an event of every node."""

    def __init__(
        self,
        store: ImageStore,
        pods: Path,
        space: Path,
        tell: Callable[[Event], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._pods = pods
        self._space = space
        self._tell = tell
        self._now = now
        self._wanted = asyncio.Event()
        self._failed = False

    def look_soon(self) -> None:
        """Look before the period is over: something has been added."""
        self._wanted.set()

    async def run(self) -> None:
        """Look until cancelled."""
        period = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period):
                    await self._wanted.wait()
            self._wanted.clear()
            period = PERIOD_SECONDS if await self.look() else BUSY_SECONDS

    async def look(self) -> bool:
        """Delete what is too much; return whether that could be done now. Failures are events."""
        try:
            shrunk = await self._shrink(None)
        except Busy:
            return False
        except (InvalidImage, OSError) as error:
            self._note_failure(str(error))
            return True
        if not shrunk.too_little:
            self._failed = False
            return True
        text = (
            f"Failed to garbage collect required amount of images. Attempted to free {shrunk.wanted} bytes, "
            f"but only found {shrunk.bytes} bytes eligible to free."
        )
        self._tell(Event("Warning", "FreeDiskSpaceFailed", text))
        self._note_failure(text)
        return True

    async def reclaim(self, wanted: int) -> int:
        """Delete images that nobody needs now, for a disk that is full; return how many bytes that freed."""
        try:
            return (await self._shrink(wanted)).bytes
        except (Busy, InvalidImage, OSError) as error:
            log.warning("no image deleted", extra={"error": str(error)})
            return 0

    def _note_failure(self, text: str) -> None:
        if self._failed:
            self._tell(Event("Warning", "ImageGCFailed", text))
        self._failed = True

    async def _shrink(self, wanted: int | None) -> Shrunk:
        space = await asyncio.to_thread(read_space, self._space)
        shrunk = await asyncio.to_thread(
            garbage.shrink, self._store, self._pods, space, self._now(), wanted=wanted
        )
        if shrunk.images:
            log.info("images deleted", extra={"images": shrunk.images, "bytes": shrunk.bytes})
        return shrunk
