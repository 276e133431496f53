"""What pods and the machine use now, for metrics.k8s.io (`kubectl top`).

CPU is a rate: the difference between two readings. The first reading of a pod is compared with its start.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, SandboxNotFound
from trainshed.cluster.sandbox.model import Usage

WINDOW_SECONDS = 1.0
"""Readings closer together than this are compared with an older one: the kernel counts in 10 ms steps."""


class CpuMeter:
    """Turns growing CPU seconds into cores in use; they were `cpu_seconds` at the instant `since`."""

    def __init__(self, since: float, cpu_seconds: float = 0.0) -> None:
        self._old = (since, cpu_seconds)
        self._new = self._old

    def cores(self, cpu_seconds: float, now: float) -> float:
        """Return the cores used since the last reading that is old enough."""
        if now - self._new[0] >= WINDOW_SECONDS:
            self._old, self._new = self._new, (now, cpu_seconds)
        elapsed = now - self._old[0]
        return max(0.0, cpu_seconds - self._old[1]) / elapsed if elapsed > 0 else 0.0


def amounts(cores: float, memory_bytes: int) -> dict[str, str]:
    """Return quantities as the metrics API has them: `154m`, `1024Ki`."""
    return {"cpu": f"{round(cores * 1000)}m", "memory": f"{memory_bytes // 1024}Ki"}


def machine_usage() -> Usage:
    """Return the machine's own CPU seconds since boot, and the memory that is not available."""
    ticks = [int(t) for t in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    busy = sum(ticks) - ticks[3] - ticks[4]
    lines = Path("/proc/meminfo").read_text().splitlines()
    memory = {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in lines)}
    used = (memory["MemTotal"] - memory["MemAvailable"]) * 1024
    return Usage(busy / os.sysconf("SC_CLK_TCK"), used)


class PodUse(msgspec.Struct, frozen=True):
    """What a running pod uses: cores, bytes; and the names of its running containers."""

    cores: float
    memory_bytes: int
    containers: tuple[str, ...]


class PodMeter:
    """Measures the pods of one node. `workers` is the node's own table, by pod uid."""

    def __init__(self, runtime: Runtime, workers: Mapping[str, PodWorker]) -> None:
        self._runtime = runtime
        self._workers = workers
        self._meters: dict[str, CpuMeter] = {}

    async def measure(self) -> dict[tuple[str, str], PodUse]:
        """Return what each running pod uses, by (namespace, name)."""
        workers = list(self._workers.values())
        found = await asyncio.gather(*(self._measure_one(worker) for worker in workers))
        self._meters = {uid: meter for uid, meter in self._meters.items() if uid in self._workers}
        keys = ((w.pod["metadata"]["namespace"], w.pod["metadata"]["name"]) for w in workers)
        return {key: use for key, use in zip(keys, found, strict=True) if use is not None}

    async def _measure_one(self, worker: PodWorker) -> PodUse | None:
        seen = worker.seen()
        running = tuple(name for name, known in seen.containers.items() if known.running)
        started = min((a.started_at for c in seen.containers.values() for a in c.attempts), default=0.0)
        if not running or seen.ip is None or seen.stopped:
            return None
        try:
            used = await self._runtime.usage(worker.uid)
        except (SandboxNotFound, RuntimeLost):
            return None
        meter = self._meters.setdefault(worker.uid, CpuMeter(started))
        return PodUse(meter.cores(used.cpu_seconds, time.time()), used.memory_bytes, running)
