"""Looks at the machine's memory: when little is left, nodes say MemoryPressure, and pods are evicted one by one.

As a kubelet (`memory.available<100Mi`, pkg/kubelet/eviction, v1.33): those that hold more than they requested go first,
of them the least important, of them the largest. What the kernel's own killer would choose may be anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from trainshed.client.transport import TransportError
from trainshed.cluster.node.metrics import machine_memory
from trainshed.cluster.node.node import Node
from trainshed.cluster.node.pod.diskuse import Use, first_to_go, low_on
from trainshed.cluster.node.registration import MEMORY
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import uid_of

log = logging.getLogger(__name__)

RESOURCE = "memory"
LOOK_SECONDS = 2.0
THRESHOLD = 100 << 20
HOLD_SECONDS = 60.0
"""How long the condition stays after there is memory again (evictionPressureTransitionPeriod)."""


def available_bytes() -> int:
    """Return how much memory can be had without swapping."""
    return machine_memory()[1]


class MemoryWatch:
    """Watches for all nodes of this machine. `available` returns bytes, `now` seconds of a clock that does not jump."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[Node]],
        *,
        available: Callable[[], int] = available_bytes,
        now: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._available = available
        self._now = now
        self._short = False
        self._last_short = 0.0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except (ApiError, TransportError, OSError) as error:
                log.warning("memory not looked at", extra={"error": str(error)})
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Tell the nodes whether memory is short, and evict a pod while it is."""
        available = self._available()
        short = available < THRESHOLD
        if short:
            self._last_short = self._now()
        elif self._short and self._now() - self._last_short < HOLD_SECONDS:
            return
        if short != self._short:
            self._short = short
            for node in self._nodes():
                await node.pressure(MEMORY, short)
        if short:
            await self._evict_one(available)

    async def _evict_one(self, available: int) -> None:
        found = [each for node in self._nodes() for each in await node.meter.by_pod()]
        if any(worker.record.verdict is not None for worker, _ in found):
            return  # what one gives back may be enough
        workers = {uid_of(worker.pod): worker for worker, _ in found}
        uses = [
            (worker.pod, Use({name: one.memory_bytes for name, one in use.containers.items()}))
            for worker, use in found
        ]
        chosen = first_to_go([(pod, use) for pod, use in uses if use.total], RESOURCE)
        if chosen is not None:
            pod, use = chosen
            workers[uid_of(pod)].evict(low_on(pod, use, THRESHOLD, available, RESOURCE))
