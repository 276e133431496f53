"""Cold start, idle memory, and what one pod's shim costs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.cluster import status, trainshed
from bench.measure import Figure
from trainshed.client.config import connect, load_kubeconfig
from trainshed.kube.meta.resources import PODS

IDLE_SECONDS = 5.0


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of `repetitions` fresh clusters."""
    ready, operator, memory, shims = [], [], [], []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
            home = Path(folder) / "state"
            started = time.perf_counter()
            trainshed(home, "up")
            ready.append(time.perf_counter() - started)
            try:
                asyncio.run(_operator_ready(home))
                operator.append(time.perf_counter() - started)
                time.sleep(IDLE_SECONDS)
                processes = status(home)["processes"]
                memory.append(sum(p["rss_bytes"] for p in processes) / 2**20)
                shims += [p["rss_bytes"] / 2**20 for p in processes if p["role"] == "shim"]
            finally:
                trainshed(home, "down", "--purge", "--yes")
    return [
        Figure("cold start to Ready (API server)", "s", ready, 1.5),
        Figure("cold start until the operator is Ready too", "s", operator, 1.5),
        Figure("idle memory, control plane + daemons + operator", "MiB RSS", memory, 150),
        Figure("memory of one shim", "MiB RSS", shims, 12),
    ]


async def _operator_ready(home: Path) -> None:
    client = connect(load_kubeconfig(home / "kubeconfig"))
    try:
        deadline = time.perf_counter() + 60
        while time.perf_counter() < deadline:
            for pod in (await client.list(PODS, "kubeflow")).items:
                conditions = (pod.get("status") or {}).get("conditions") or ()
                if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                    return
            await asyncio.sleep(0.01)
        raise TimeoutError("waited 60 s for the operator's pod to be Ready")
    finally:
        await client.close()
