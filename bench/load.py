"""How many jobs a second get all their pods, with nodes that are not there; and what that costs.

    python -m bench.load                          1,000 jobs of 1 + 4 replicas
    python -m bench.load --jobs 100 300 1000 3000 growth: a fresh cluster for each number
    python -m bench.load --jobs 1000 --repeat 3   median and spread

The cluster, its API server and the operator are those of `trainshed up`; fake nodes run in this process, where pods
are Running at once. Measured from the first request that creates a job until a watch has shown the last pod. CPU
seconds by process say where the time goes; memory is the operator's when all is there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from bench.cluster import cluster, status
from bench.gang import REPLICAS, job
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.cluster.node.fake.lifecycle import RUNS
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import NODES, PODS
from trainshed.testing import FakeNodes

AT_ONCE = 16
"""Requests of users that are under way together."""
_TICK = os.sysconf("SC_CLK_TCK")
_LABEL = "training.kubeflow.org/job-name"


class Load(NamedTuple):
    """One run: so many jobs, the seconds until all pods were there, the operator's memory, CPU seconds by process."""

    jobs: int
    seconds: float
    operator_mib: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds

    def __str__(self) -> str:
        spent = ", ".join(
            f"{role} {seconds:.1f} s" for role, seconds in sorted(self.cpu.items()) if seconds >= 0.05
        )
        return (
            f"{self.jobs} jobs x (1+{REPLICAS - 1}): all pods created in {self.seconds:.1f} s, {self.rate:.1f} jobs/s; "
            f"operator {self.operator_mib:.0f} MiB; CPU: {spent}"
        )


def on_fake_nodes(name: str) -> Object:
    """Return a job whose pods only fake nodes take."""
    made = job(name)
    for replica in made["spec"][PYTORCHJOB.replica_specs_field].values():
        replica["template"]["spec"] = {**replica["template"]["spec"], "nodeSelector": {"type": "fake"}}
    return made


async def run(jobs: int) -> Load:
    """Return how one run went, on a cluster of its own."""
    with cluster() as home:
        client = connect(load_kubeconfig(home / "kubeconfig"))
        await _operator_runs(client)  # it would else be placed on a fake node itself
        nodes = asyncio.create_task(FakeNodes(client, count=4, lifecycles=(RUNS,)).run())
        try:
            await _nodes_are_there(client)
            await _all_pods(client, [on_fake_nodes("warm-up")])
            before = cpu_seconds(home)
            started = time.perf_counter()
            await _all_pods(client, [on_fake_nodes(f"load-{number}") for number in range(jobs)])
            seconds = time.perf_counter() - started
            after = cpu_seconds(home)
            memory = sum(p["rss_bytes"] for p in status(home)["processes"] if p["role"] == "operator") / 2**20
        finally:
            nodes.cancel()
            await asyncio.gather(nodes, return_exceptions=True)
            await client.close()
    return Load(jobs, seconds, memory, {role: after[role] - before.get(role, 0.0) for role in after})


async def _operator_runs(client: Client) -> None:
    async with asyncio.timeout(30):
        while not any(is_ready(pod) for pod in (await client.list(PODS, "kubeflow")).items):
            await asyncio.sleep(0.05)


async def _nodes_are_there(client: Client) -> None:
    async with asyncio.timeout(30):
        while len((await client.list(NODES, label_selector="type=fake")).items) < 4:
            await asyncio.sleep(0.05)


async def _all_pods(client: Client, jobs: Sequence[Object]) -> None:
    """Create the jobs, and return when a watch has shown all their pods."""
    version = (await client.list(PODS, "default")).resource_version
    seen = asyncio.create_task(_watched(client, version, len(jobs) * REPLICAS))
    waiting = list(reversed(jobs))

    async def user() -> None:
        while waiting:
            await client.create(PYTORCHJOB.resource, waiting.pop())

    await asyncio.gather(*(user() for _ in range(AT_ONCE)))
    await asyncio.wait_for(seen, 60 + len(jobs))


async def _watched(client: Client, version: str, wanted: int) -> None:
    names: set[str] = set()
    events = client.watch(PODS, "default", resource_version=version, label_selector=_LABEL, bookmarks=False)
    async with aclosing(events):
        async for event in events:
            names.add(event.object["metadata"]["name"])
            if len(names) >= wanted:
                return


def cpu_seconds(home: Path) -> dict[str, float]:
    """Return the CPU seconds that the processes of the cluster, and this one, have used, by role."""
    spent: dict[str, float] = {"fake nodes and users": time.process_time()}
    for process in status(home)["processes"]:
        fields: list[Any] = Path(f"/proc/{process['pid']}/stat").read_text().rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / _TICK
        spent[process["role"]] = spent.get(process["role"], 0.0) + seconds
    return spent


def line(loads: Sequence[Load]) -> str:
    """Return the figures of all runs in a line: per number of jobs the median and the spread."""
    parts = []
    for jobs in sorted({load.jobs for load in loads}):
        here = [load for load in loads if load.jobs == jobs]
        rates, memory = [load.rate for load in here], [load.operator_mib for load in here]
        parts.append(
            f"{jobs} jobs: {statistics.median(rates):.1f} jobs/s ({min(rates):.1f} - {max(rates):.1f}), "
            f"operator {statistics.median(memory):.0f} MiB"
        )
    return "load: " + "; ".join(parts)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[1000])
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    loads = []
    for _ in range(arguments.repeat):
        for jobs in arguments.jobs:
            loads.append(asyncio.run(run(jobs)))
            print(loads[-1], flush=True)
    print(line(loads))


if __name__ == "__main__":
    main()
