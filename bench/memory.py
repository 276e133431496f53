"""Memory and disk of the control plane at 10,000 pods, and after they are deleted.

    .venv/bin/python -m bench.memory [--pods 10000]

A real cluster; the pods ask for a node that is not there, so that none runs. Resident memory of the
control plane and size of `store.db` with its WAL, before, with all pods, and every ten seconds after their deletion.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from bench.cluster import cluster, status
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.cluster.control.launcher import rss_bytes
from trainshed.kube.meta.resources import PODS

WRITERS = 16
WATCHED_SECONDS = 60


def main() -> None:
    """Print the figures as they come."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=10_000)
    arguments = parser.parse_args()
    with cluster() as home:
        asyncio.run(_measure(home, arguments.pods))


async def _measure(home: Path, count: int) -> None:
    pid = status(home)["pid"]
    client = connect(load_kubeconfig(home / "kubeconfig"))

    def told(what: str) -> None:
        size = sum(path.stat().st_size for path in home.glob("store.db*"))
        print(f"{what}: {rss_bytes(pid) / 2**20:.0f} MiB, store {size / 2**20:.0f} MiB", flush=True)

    await asyncio.sleep(10)
    told("idle")
    began = time.monotonic()
    await _create(client, count)
    print(f"created {count} pods in {time.monotonic() - began:.0f} s", flush=True)
    await asyncio.sleep(20)
    told(f"{count} pods")
    for _ in range(2):
        await client.list(PODS, namespace="default")
    told(f"{count} pods, listed")
    began = time.monotonic()
    await _delete(client)
    print(f"deleted them in {time.monotonic() - began:.0f} s", flush=True)
    for seconds in range(0, WATCHED_SECONDS + 1, 10):
        told(f"{seconds} s after")
        await asyncio.sleep(10)
    await client.close()


async def _create(client: Client, count: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            spec = {
                "nodeSelector": {"no": "such-node"},
                "containers": [{"name": "main", "image": "example.com/sh:1", "command": ["sleep", "1000"]}],
            }
            await client.create(PODS, {"metadata": {"name": f"p{number}"}, "spec": spec}, namespace="default")

    await asyncio.gather(*(work() for _ in range(WRITERS)))


async def _delete(client: Client) -> None:
    names = iter([pod["metadata"]["name"] for pod in (await client.list(PODS, namespace="default")).items])

    async def work() -> None:
        for name in names:
            await client.delete(PODS, name, "default", grace_period_seconds=0)

    await asyncio.gather(*(work() for _ in range(WRITERS)))


if __name__ == "__main__":
    main()
