"""Fifty jobs on nodes that are not there: the real API server, scheduler, controllers and operator, pods from data."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.control_world import World, cluster
from trainshed.cluster.node.fake.lifecycle import RUNS
from trainshed.cluster.node.membership import settle_fakes
from trainshed.jobs.engine.constants import LABEL_REPLICA_TYPE
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import NODES, PODS, Resource
from trainshed.operator.manager import Operator
from trainshed.operator.objects import crds
from trainshed.sdk import jobs
from trainshed.sdk import state as jobstate
from trainshed.testing import FakeNodes, make_job, make_pod, make_replica, read_lifecycles, until_async

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
LIFECYCLES = f"""
- annotations: {{outcome: fails}}
  stages:
    - {{phase: Running, ready: true}}
    - {{after: 0.2, phase: Failed, exit_code: 7, message: out of luck}}
- annotations: {{outcome: waits}}
  stages:
    - {{phase: Running, ready: true}}
- labels: {{{LABEL_REPLICA_TYPE}: master}}
  stages:
    - {{after: 0.1, phase: Running, ready: true}}
    - {{after: 0.5, phase: Succeeded}}
- stages:
    - {{after: 0.05, phase: Running, ready: true}}
    - {{after: 0.3, phase: Succeeded}}
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path, node=False) as opened:
        for crd in crds():
            await opened.client.apply(DEFINITIONS, crd, field_manager="test")
        yield opened


async def finished(world: World) -> list[Object]:
    """Return the jobs of the namespace that are over."""
    return [job.obj for job in await jobs.list_jobs(world.client, "default") if jobstate.is_finished(job.obj)]


@pytest.mark.timeout(120)
async def test_fifty_jobs_run_to_their_ends(world: World) -> None:
    world.client.namespace = "default"
    nodes = FakeNodes(world.client, count=3, lifecycles=read_lifecycles(LIFECYCLES))
    operator = Operator(world.client, OperatorOptions())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in (nodes, operator)]
        kind = next(k for k in await jobs.kinds(world.client) if k.kind == "PyTorchJob")
        for number in range(50):
            doomed = number % 10 == 0
            master = make_replica(1, annotations={"outcome": "waits"} if doomed else None)
            worker = make_replica(
                2, restart_policy="Never", annotations={"outcome": "fails"} if doomed else None
            )
            await world.client.create(kind, make_job(f"train-{number}", master, worker, namespace="default"))

        async def all_over() -> list[Object]:
            over = await finished(world)
            return over if len(over) == 50 else []

        over = await until_async(all_over, "all 50 jobs are finished", 90)
        states = Counter(map(jobstate.state_of, over))
        failed = next(job for job in over if jobstate.state_of(job) == "Failed")
        pods = await jobs.pods_of(world.client, failed)
        for task in running:
            task.cancel()
    await operator.close()
    assert states == {"Succeeded": 45, "Failed": 5}
    assert len(nodes.started) == len(set(nodes.started)) == 150, "every pod runs once"
    first = jobstate.first_failure(pods)
    assert first is not None and first[1]["exitCode"] == 7 and first[1]["message"] == "out of luck"


async def test_a_pod_that_no_lifecycle_is_for_stays_pending_and_a_deleted_one_goes(world: World) -> None:
    lifecycles = read_lifecycles("[{labels: {app: a}, stages: [{ready: true}]}]")
    nodes = FakeNodes(world.client, lifecycles=lifecycles, bind=True)
    task = asyncio.create_task(nodes.run())
    for name in ("a", "b"):
        await world.client.create(PODS, make_pod(name, namespace="default", labels={"app": name}))

    def phase(name: str) -> str:
        return str((world.stored(PODS, name) or {}).get("status", {}).get("phase"))

    await until_async(lambda: phase("a") == "Running", "pod a Running")
    assert phase("b") == "Pending" and world.stored(PODS, "b")["spec"]["nodeName"] == "fake-0"
    assert name_of((await world.client.list(NODES)).items[0]) == "fake-0"
    for name in ("a", "b"):
        await world.client.delete(PODS, name, "default")
        await until_async(lambda name=name: world.stored(PODS, name) is None, f"pod {name} gone")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_fake_nodes_of_an_earlier_start_stay_or_are_forgotten_with_their_pods(world: World) -> None:
    nodes = FakeNodes(world.client, count=20, lifecycles=(RUNS,), stay=True)
    task = asyncio.create_task(nodes.run())
    pod = make_pod("a", namespace="default")
    pod["spec"]["nodeName"] = "fake-19"
    await world.client.create(PODS, pod)
    await until_async(
        lambda: (world.stored(PODS, "a") or {}).get("status", {}).get("phase") == "Running", "a runs"
    )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await settle_fakes(world.client, None) == 20, "as many as last time"
    assert await settle_fakes(world.client, 3) == 3
    assert sorted(map(name_of, (await world.client.list(NODES)).items)) == ["fake-0", "fake-1", "fake-2"]
    assert world.stored(PODS, "a") is None
