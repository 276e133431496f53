"""Looks at what pods write: evicts those over a limit, and, when the disk is nearly full, one after the other.

    every 2 s   pods with `ephemeral-storage` limits or `sizeLimit`s are measured; after a long look comes a long rest
    every 10 s  free space and inodes of the state directory ──▶ DiskPressure of the nodes, their taint ──▶ evictions

Kubelets call a disk full at 10 % and hold the condition for five minutes; on a laptop that is much room and long.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from trainshed.client.transport import TransportError
from trainshed.cluster.node.node import Node
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.diskuse import (
    Use,
    first_to_go,
    is_bounded,
    low_on,
    over_limit,
    places,
    use_of,
)
from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.node.registration import DISK
from trainshed.cluster.sandbox.api import Runtime, RuntimeLost
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import uid_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
REST = 10.0
"""A look that took long is followed by a rest of this many times as long."""
DISK_SECONDS = 10.0
HOLD_SECONDS = 60.0
"""How long the condition stays after there is room again (evictionPressureTransitionPeriod)."""


class Room(msgspec.Struct, frozen=True):
    """What is left of a disk, and how little is too little: bytes, and inodes where the file system counts them."""

    available: int
    threshold: int
    inodes: int
    least_inodes: int

    @property
    def is_short(self) -> bool:
        return self.available < self.threshold or self.inodes < self.least_inodes


def room_of(found: os.statvfs_result) -> Room:
    """Return what is left: short below 1 GiB or a tenth, whatever is less, and below a hundredth of the inodes."""
    size = found.f_blocks * found.f_frsize
    return Room(
        available=found.f_bavail * found.f_frsize,
        threshold=min(1 << 30, size // 10),
        inodes=found.f_favail,
        least_inodes=found.f_files // 100,
    )


async def _nothing(wanted: int) -> int:
    return 0


class DiskWatch:
    """Watches the pods of all nodes of this machine. `nodes` returns them.

    `reclaim` is asked to free so many bytes before a pod is evicted, and returns how many it freed.
    """

    def __init__(
        self,
        runtime: Runtime,
        paths: NodePaths,
        nodes: Callable[[], Sequence[Node]],
        *,
        room: Callable[[Path], Room] = lambda path: room_of(os.statvfs(path)),
        reclaim: Callable[[int], Awaitable[int]] = _nothing,
    ) -> None:
        self._runtime = runtime
        self._paths = paths
        self._nodes = nodes
        self._room = room
        self._reclaim = reclaim
        self._short_since_end = 0.0
        self._short = False

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat(self.look_at_limits, LOOK_SECONDS))
            tasks.create_task(self._repeat(self.look_at_disk, DISK_SECONDS))

    async def _repeat(self, look: Callable[[], Awaitable[None]], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await look()
            except (ApiError, TransportError, RuntimeLost, OSError) as error:
                log.warning("disk not looked at", extra={"error": str(error)})
            await asyncio.sleep(max(seconds, REST * (loop.time() - began)))

    async def look_at_limits(self) -> None:
        """Evict pods that wrote more than they may."""
        workers = [worker for worker in self._workers() if is_bounded(worker.pod)]
        for worker, use in zip(workers, await self._measure(workers), strict=True):
            if (verdict := over_limit(worker.pod, use)) is not None:
                worker.evict(verdict)

    async def look_at_disk(self) -> None:
        """Tell the nodes whether the disk is short, and evict a pod while it is."""
        loop = asyncio.get_running_loop()
        room = await asyncio.to_thread(self._room, self._paths.home)
        if room.is_short:
            self._short_since_end = loop.time()
        elif self._short and loop.time() - self._short_since_end < HOLD_SECONDS:
            return
        if room.is_short != self._short:
            self._short = room.is_short
            for node in self._nodes():
                await node.pressure(DISK, self._short)
        if room.is_short and await self._reclaim(max(room.threshold - room.available, 1)):
            room = await asyncio.to_thread(self._room, self._paths.home)
        if room.is_short:
            await self._make_room(room)

    async def _make_room(self, room: Room) -> None:
        workers = {uid_of(worker.pod): worker for worker in self._workers()}
        uses = await self._measure(list(workers.values()))
        found = [(worker.pod, use) for worker, use in zip(workers.values(), uses, strict=True)]
        chosen = first_to_go([(pod, use) for pod, use in found if use.total])
        if chosen is not None:
            pod, use = chosen
            workers[uid_of(pod)].evict(low_on(pod, use, room.threshold, room.available))

    def _workers(self) -> list[PodWorker]:
        return [worker for node in self._nodes() for worker in node.running()]

    async def _measure(self, workers: Sequence[PodWorker]) -> list[Use]:
        found = [places(self._paths, worker.pod) for worker in workers]
        paths = [path for one in found for each in one.values() for path in each]
        sizes = await self._runtime.measure(paths)
        return [use_of(one, sizes) for one in found]
