"""Pods that are resized: the node agent against an API and a runtime in memory."""

from __future__ import annotations

import errno

import msgspec
import pytest

from tests.cluster.node_world import NODE, World
from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.pod import resizer
from trainshed.cluster.node.pod.resizing import IN_PROGRESS, PENDING
from trainshed.cluster.sandbox.model import Amounts

SMALL = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
LARGE = {"requests": {"cpu": "300m", "memory": "96Mi"}, "limits": {"cpu": "400m", "memory": "256Mi"}}
HUGE = {"requests": {"cpu": "100000"}, "limits": {}}
SMALL_AMOUNTS = Amounts(memory_limit=128 << 20, cpu_limit=200, cpu_request=100)
LARGE_AMOUNTS = Amounts(memory_limit=256 << 20, cpu_limit=400, cpu_request=300)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state")


def sized(resources, name="web", **fields):
    pod = make_pod(
        make_container(resources=resources, **fields), metadata={"name": name, "uid": f"uid-{name}"}
    )
    pod.pop("status")
    return pod


def container(world, name="web"):
    statuses = world.api.status(name).get("containerStatuses") or [{}]
    return statuses[0]


def conditions(world, name="web"):
    listed = world.api.status(name).get("conditions") or ()
    return {c["type"]: c.get("reason", "") for c in listed if c["type"] in (PENDING, IN_PROGRESS)}


async def test_a_container_that_runs_gets_other_amounts(world):
    async with world.node():
        await world.api.apply_pod(sized(SMALL))
        await world.until_phase("web", "Running")
        assert (container(world)["resources"], container(world)["allocatedResources"]) == (
            SMALL,
            SMALL["requests"],
        )
        await world.api.apply_pod(sized(LARGE))
        await world.until(lambda: container(world)["resources"] == LARGE, "what is in force is told")
        assert world.runtime.resized == [("main", LARGE_AMOUNTS)]
        assert container(world)["allocatedResources"] == LARGE["requests"]
        assert (container(world)["restartCount"], conditions(world)) == (0, {})


async def test_what_the_node_does_not_have_waits_until_it_does(world, monkeypatch):
    monkeypatch.setattr("trainshed.cluster.node.pod.lifecycle.RETRY_SECONDS", 0.02)
    async with world.node():
        whole = world.api.objects[f"/api/v1/nodes/{NODE}"]["status"]["allocatable"]
        most = {"requests": {"cpu": whole["cpu"]}}
        await world.api.apply_pod(sized(SMALL))
        await world.api.apply_pod(sized(SMALL, "other"))
        await world.until_phase("web", "Running")
        await world.until_phase("other", "Running")
        await world.api.apply_pod(sized(HUGE))
        await world.until(
            lambda: conditions(world) == {PENDING: "Infeasible"}, "it is told that it never will"
        )
        await world.api.apply_pod(sized(most))
        await world.until(
            lambda: conditions(world) == {PENDING: "Deferred"}, "it is told that it will not now"
        )
        assert (container(world)["resources"], world.runtime.resized) == (SMALL, [])
        await world.api.delete_pod("other", 0)
        await world.until(lambda: PENDING not in conditions(world), "it gets what the other pod had")
        assert container(world)["allocatedResources"] == most["requests"]


async def test_a_container_starts_anew_where_its_policy_says_so(world):
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    async with world.node():
        await world.api.apply_pod(sized(LARGE, resizePolicy=policy))
        await world.until_phase("web", "Running")
        await world.api.apply_pod(sized(SMALL, resizePolicy=policy))
        await world.until(lambda: container(world).get("restartCount") == 1, "it runs anew")
        await world.until(lambda: container(world)["resources"] == SMALL, "with less")
        spec = world.runtime.specs["uid-web", "main", 1]
        assert (spec.memory_limit, spec.cpu_limit, spec.cpu_request) == (128 << 20, 200, 100)
        assert (world.runtime.resized, conditions(world)) == ([], {})


async def test_what_the_kernel_refuses_is_told_and_tried_again(world, monkeypatch):
    told = []
    fail = resizer.PodRecord.fail_resize

    def failed(record, message, now):
        told.append(message)
        fail(record, message, now - 1)  # its time has come at once

    monkeypatch.setattr(resizer.PodRecord, "fail_resize", failed)
    world.runtime.fail_resize = [OSError(errno.EBUSY, "Device or resource busy")]
    async with world.node():
        await world.api.apply_pod(sized(SMALL))
        await world.until_phase("web", "Running")
        await world.api.apply_pod(sized(LARGE))
        await world.until(lambda: container(world)["resources"] == LARGE, "what is in force is told")
        assert told == ["container main: [Errno 16] Device or resource busy"]
        await world.until(lambda: conditions(world) == {}, "nothing goes on")


async def test_a_node_agent_that_comes_back_goes_on_with_a_resize(world):
    """Whatever was asked for while it was away, and whatever its predecessor did without telling."""
    async with world.node():
        await world.api.apply_pod(sized(SMALL))
        await world.until_phase("web", "Running")
        await world.until(lambda: container(world).get("resources") == SMALL, "its status is written")
    await world.api.apply_pod(sized(LARGE))
    async with world.node():
        await world.until(lambda: container(world)["resources"] == LARGE, "it is resized")
    assert world.runtime.resized == [("main", LARGE_AMOUNTS)]
    (state,) = world.runtime.sandboxes["uid-web"].containers
    world.runtime._set("uid-web", msgspec.structs.replace(state, amounts=SMALL_AMOUNTS))
    async with world.node():
        await world.until(lambda: len(world.runtime.resized) == 2, "it is given what it was told to have")
    assert world.runtime.resized[1] == ("main", LARGE_AMOUNTS)


async def test_a_sandbox_that_does_not_say_what_it_has_is_believed(world):
    """One of an earlier version, which could not be resized."""
    async with world.node():
        await world.api.apply_pod(sized(SMALL))
        await world.until_phase("web", "Running")
    (state,) = world.runtime.sandboxes["uid-web"].containers
    world.runtime._set("uid-web", msgspec.structs.replace(state, amounts=None))
    async with world.node():
        await world.api.apply_pod(make_pod(metadata={"name": "later", "uid": "u2"}))
        await world.until_phase("later", "Running")
    assert (world.runtime.resized, conditions(world)) == ([], {})
