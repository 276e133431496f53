"""What one pod's sandbox costs: how long until its shim is up with its own network."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.measure import Figure
from trainshed.cluster.sandbox.api import Runtime, RuntimePaths, SandboxSpec


def measure(repetitions: int) -> list[Figure]:
    """Return the times of `repetitions` sandboxes, one after the other."""
    with tempfile.TemporaryDirectory(prefix="ts-bench-") as folder:
        times = asyncio.run(_start(Path(folder), repetitions))
    return [Figure("start-up of one shim, its network included", "ms", times, 30)]


async def _start(home: Path, repetitions: int) -> list[float]:
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    times = []
    try:
        for number in range(repetitions):
            spec = SandboxSpec(
                uid=f"bench-{number}", namespace="bench", name=f"p{number}", hostname=f"p{number}"
            )
            started = time.perf_counter()
            await runtime.run_sandbox(spec)
            times.append((time.perf_counter() - started) * 1000)
            await runtime.stop_sandbox(spec.uid)
            await runtime.remove_sandbox(spec.uid)
    finally:
        await runtime.stop_all()
    return times
