"""How long 1 master and 4 workers take from the apply to all Running, when their containers just sleep.

Where `TMPDIR` is on ext4 without a journal, the time grows with what was deleted there in the last five minutes, which
is what this makes most of: it passes over each such inode. With a journal, and on other file systems, it does not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from bench.cluster import cluster
from bench.measure import Figure
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS

REPLICAS = 5


async def measure(repetitions: int) -> list[Figure]:
    """Return the times of `repetitions` jobs, one after the other on one cluster."""
    with cluster() as home:
        client = connect(load_kubeconfig(home / "kubeconfig"))
        try:
            await _operator_is_up(client)
            times = []
            for number in range(repetitions):
                await _pods_have_left(client, home)
                times.append(await _once(client, f"gang-{number}"))
        finally:
            await client.close()
    return [Figure("apply of 1 + 4 replicas until all Running", "s", times, 0.3, statistic="p99")]


async def _operator_is_up(client: Client) -> None:
    await _once(client, "warm-up")


async def _pods_have_left(client: Client, home: Path) -> None:
    """Return when the files of deleted pods are gone, too: the next job is not to start while they are removed."""
    async with asyncio.timeout(60):
        while len(list((home / "pods").iterdir())) > len((await client.list(PODS)).items):
            await asyncio.sleep(0.02)


async def _once(client: Client, name: str) -> float:
    version = (await client.list(PODS, "default")).resource_version
    started = time.perf_counter()
    await client.apply(PYTORCHJOB.resource, job(name), field_manager="bench")
    await asyncio.wait_for(_all_running(client, name, version), 60)
    took = time.perf_counter() - started
    await client.delete(PYTORCHJOB.resource, name, "default", propagation_policy="Foreground")
    async with asyncio.timeout(60):
        while await _exists(client, name) or (await client.list(PODS, "default")).items:
            await asyncio.sleep(0.02)
    return took


async def _all_running(client: Client, name: str, version: str) -> None:
    running: set[str] = set()
    selector = f"training.kubeflow.org/job-name={name}"
    events = client.watch(PODS, "default", resource_version=version, label_selector=selector)
    async with aclosing(events):
        async for event in events:
            if (event.object.get("status") or {}).get("phase") == "Running":
                running.add(event.object["metadata"]["name"])
            if len(running) == REPLICAS:
                return


async def _exists(client: Client, name: str) -> bool:
    try:
        await client.get(PYTORCHJOB.resource, name, "default")
    except ApiError as error:
        if error.code == 404:
            return False
        raise
    return True


def job(name: str) -> Object:
    """Return a PyTorchJob of 1 + 4 replicas that sleep."""
    container = {
        "name": "pytorch",
        "image": "sleep",
        "command": ["sleep", "1000"],
    }
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template},
                "Worker": {"replicas": REPLICAS - 1, "template": template},
            }
        },
    }
