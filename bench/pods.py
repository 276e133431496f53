"""What a pod costs that does nothing: from its binding to Running, a command in it, and what it prints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from kubernetes import client as kubernetes
from kubernetes import config
from kubernetes.stream import stream

from bench.cluster import cluster
from bench.measure import Figure
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.kube.meta.objects import Object, spec_of, status_of
from trainshed.kube.meta.resources import PODS
from trainshed.kube.wire.options import LogOptions

NAMESPACE = "default"
LENGTH = 100
LINES = 3_000_000
PRINTS = f"sleep 1; yes {'x' * (LENGTH - 1)} | head -n {LINES}"
EXECS = 5
"""Commands in each pod that are timed."""


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of `repetitions` pods, one after the other; of logs of a tenth of that, being large."""
    with cluster() as home:
        starts = asyncio.run(_each(home, _start, "start", repetitions))
        execs = _execs(home, max(1, repetitions // EXECS))
        rates = asyncio.run(_each(home, _rate, "log", max(1, repetitions // 10)))
    return [
        Figure("one pod, from its binding to Running", "ms", starts, 40),
        Figure("a command in a pod, there and back", "ms", execs, 50),
        Figure("log of a pod, followed, no line lost", "MB/s", rates, 100, higher_is_better=True),
    ]


async def _each(
    home: Path, measured: Callable[[Client, str], Awaitable[float]], prefix: str, repetitions: int
) -> list[float]:
    """Return what is measured of as many pods, one after the other."""
    client = connect(load_kubeconfig(home / "kubeconfig"))
    try:
        return [await measured(client, f"{prefix}-{number}") for number in range(repetitions)]
    finally:
        await client.close()


async def _start(client: Client, name: str) -> float:
    """Return how long a watcher waits from a pod with a node to the same pod Running, in ms."""
    version = (await client.list(PODS, NAMESPACE)).resource_version
    await client.create(PODS, pod(name, "exec sleep 1000"))
    bound = 0.0
    async with (
        asyncio.timeout(60),
        aclosing(client.watch(PODS, NAMESPACE, resource_version=version)) as events,
    ):
        async for event in events:
            if event.object["metadata"]["name"] != name:
                continue
            if not bound and spec_of(event.object).get("nodeName"):
                bound = time.perf_counter()
            if status_of(event.object).get("phase") == "Running":
                break
    took = (time.perf_counter() - bound) * 1000
    await client.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
    return took


def _execs(home: Path, repetitions: int) -> list[float]:
    """Return how long `true` takes in a pod by the WebSocket of Kubernetes' own client, in ms."""
    api = kubernetes.CoreV1Api(config.new_client_from_config(str(home / "kubeconfig")))
    api.create_namespaced_pod(NAMESPACE, pod("exec", "exec sleep 1000"))
    deadline = time.perf_counter() + 60
    while api.read_namespaced_pod("exec", NAMESPACE).status.phase != "Running":
        assert time.perf_counter() < deadline, "waited in vain for the pod to run"
        time.sleep(0.01)
    times = []
    for _ in range(repetitions * EXECS):
        started = time.perf_counter()
        stream(
            api.connect_get_namespaced_pod_exec, "exec", NAMESPACE, command=["true"], stdout=True, stderr=True
        )
        times.append((time.perf_counter() - started) * 1000)
    api.delete_namespaced_pod("exec", NAMESPACE, grace_period_seconds=0)
    return times


async def _rate(client: Client, name: str) -> float:
    """Return MB per second from the first line to the last. Raises AssertionError when a byte is lost."""
    await client.create(PODS, pod(name, PRINTS))
    async with asyncio.timeout(60):
        while status_of(await client.get(PODS, name, NAMESPACE)).get("phase") != "Running":
            await asyncio.sleep(0.01)
    began, size = 0.0, 0
    async for chunk in client.logs(name, NAMESPACE, LogOptions(follow=True)):
        began = began or time.perf_counter()
        size += len(chunk)
    took = time.perf_counter() - began
    assert size == LINES * LENGTH, f"{LINES * LENGTH - size} of {LINES * LENGTH} bytes were lost"
    await client.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
    return size / took / 1e6


def pod(name: str, script: str) -> Object:
    """Return a pod that runs a script once."""
    container = {"name": "c", "image": "bench", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
