"""What pods and the machine use now, for metrics.k8s.io (`kubectl top`).

CPU is a rate: the difference between two readings. The first reading of a pod is compared with its start.
"""

from __future__ import annotations

import os
from pathlib import Path

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
