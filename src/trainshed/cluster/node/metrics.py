"""What pods and the machine use now, for metrics.k8s.io (`kubectl top`).

CPU is a rate: the difference between two readings. The first reading of a pod is compared with its start.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, SandboxNotFound
from trainshed.cluster.sandbox.model import Usage
from trainshed.kube.meta.objects import name_of, namespace_of

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
    total, available = machine_memory()
    return Usage(busy / os.sysconf("SC_CLK_TCK"), total - available)


def machine_memory() -> tuple[int, int]:
    """Return how many bytes of memory the machine has, and how many can be had without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    memory = {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in lines)}
    return memory["MemTotal"] * 1024, memory["MemAvailable"] * 1024


class ContainerUse(msgspec.Struct, frozen=True):
    """What a running container uses: cores now, CPU seconds since its start, bytes."""

    cores: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    rss_bytes: int = 0


class PodUse(msgspec.Struct, frozen=True):
    """What a running pod and its running containers use; `network` is (received, sent) bytes of one of its own."""

    whole: ContainerUse
    containers: dict[str, ContainerUse]
    network: tuple[int, int] | None = None


def total_use(pods: Iterable[PodUse]) -> ContainerUse:
    """Return what pods use together."""
    found = [use.whole for use in pods]
    return ContainerUse(
        sum(one.cores for one in found),
        sum(one.cpu_seconds for one in found),
        sum(one.memory_bytes for one in found),
    )


class PodMeter:
    """Measures the pods of one node. `workers` is the node's own table, by pod uid."""

    def __init__(self, runtime: Runtime, workers: Mapping[str, PodWorker]) -> None:
        self._runtime = runtime
        self._workers = workers
        self._meters: dict[tuple[str, str, int], CpuMeter] = {}
        """By pod, container and attempt; the pod as a whole has no name."""

    async def measure(self) -> dict[tuple[str, str], PodUse]:
        """Return what each running pod uses, by (namespace, name)."""
        found = await self.by_pod()
        return {(namespace_of(worker.pod), name_of(worker.pod)): use for worker, use in found}

    async def by_pod(self) -> list[tuple[PodWorker, PodUse]]:
        """Return the workers of running pods, and what their pods use."""
        workers = list(self._workers.values())
        found = await asyncio.gather(*(self._measure_one(worker) for worker in workers))
        self._meters = {key: meter for key, meter in self._meters.items() if key[0] in self._workers}
        return [(worker, use) for worker, use in zip(workers, found, strict=True) if use is not None]

    async def _measure_one(self, worker: PodWorker) -> PodUse | None:
        seen = worker.seen()
        running = {name: known.attempts[-1] for name, known in seen.containers.items() if known.running}
        started = min((a.started_at for c in seen.containers.values() for a in c.attempts), default=0.0)
        if not running or seen.ip is None or seen.stopped:
            return None
        try:
            used = await self._runtime.usage(worker.uid)
        except (SandboxNotFound, RuntimeLost):
            return None
        rate = self._rate((worker.uid, "", 0), started, used.cpu_seconds)
        whole = ContainerUse(rate, used.cpu_seconds, used.memory_bytes)
        containers = {}
        for name, attempt in running.items():
            one = used.containers.get(name)
            if one is None:
                containers[name] = ContainerUse()
                continue
            rate = self._rate((worker.uid, name, attempt.number), attempt.started_at, one.cpu_seconds)
            containers[name] = ContainerUse(rate, one.cpu_seconds, one.memory_bytes, one.rss_bytes)
        return PodUse(whole, containers, used.network)

    def _rate(self, key: tuple[str, str, int], started: float, cpu_seconds: float) -> float:
        return self._meters.setdefault(key, CpuMeter(started)).cores(cpu_seconds, time.time())
