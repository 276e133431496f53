"""PodGroups of both APIs on the real API server: placed together, in order, and said why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster
from tests.cluster.test_controllers_scheduling import needing, node_of, scheduled, waits
from trainshed.cluster.scheduler.install import install
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.podgroups import (
    COSCHEDULING_GROUP_LABEL,
    COSCHEDULING_PODGROUPS,
    VOLCANO_GROUP_ANNOTATION,
    VOLCANO_PODGROUPS,
    VOLCANO_QUEUES,
)
from trainshed.kube.meta.resources import CRDS, EVENTS, NODES, PODS, PRIORITYCLASSES, Resource

MARKS = {
    VOLCANO_PODGROUPS: lambda name: {"annotations": {VOLCANO_GROUP_ANNOTATION: name}},
    COSCHEDULING_PODGROUPS: lambda name: {"labels": {COSCHEDULING_GROUP_LABEL: name}},
}
SCHEDULERS = {VOLCANO_PODGROUPS: "volcano", COSCHEDULING_PODGROUPS: "scheduler-plugins-scheduler"}
both = pytest.mark.parametrize("resource", MARKS, ids=["volcano", "scheduler-plugins"])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """One node of 8 cores."""
    async with cluster(tmp_path) as started:
        yield started


def make_group(resource: Resource, name: str, least: int, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": resource.api_version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": least, **spec},
    }


def member(resource: Resource, group: str, number: int, cpu: str = "4", **spec: Any) -> Object:
    """Return a pod of a group, as a person or another tool makes it."""
    pod = needing(f"{group}-{number}", cpu=cpu)
    pod["metadata"] |= MARKS[resource](group)
    pod["spec"] |= {"schedulerName": SCHEDULERS[resource], **spec}
    return pod


async def create(world: World, resource: Resource, name: str, pods: int, least: int, **spec: Any) -> None:
    await world.client.create(resource, make_group(resource, name, least, **spec))
    await asyncio.gather(*(world.client.create(PODS, member(resource, name, n)) for n in range(pods)))


def placed(world: World, group: str, pods: int = 2) -> int:
    return sum(bool(node_of(world, f"{group}-{number}")) for number in range(pods))


def phase_of(world: World, resource: Resource, name: str) -> str:
    return str(section(world.stored(resource, name) or {}, "status").get("phase", ""))


def said(world: World, kind: str, name: str) -> list[tuple[str, str]]:
    """Return reason and message of the events about one object."""
    about = [e for e in world.all(EVENTS) if e["involvedObject"].get("kind") == kind]
    return [(e["reason"], e["message"]) for e in about if e["involvedObject"]["name"] == name]


@both
async def test_a_group_is_placed_when_its_last_pod_comes(world: World, resource: Resource) -> None:
    spec = {"queue": "research"} if resource == VOLCANO_PODGROUPS else {}
    await create(world, resource, "gang", pods=1, least=2, **spec)
    text = "pod group default/gang waits: 1 of at least 2 pods are there"
    await world.until("the first says what it waits for", lambda: waits(world, "gang-0", text))
    assert placed(world, "gang") == 0
    await world.client.create(PODS, member(resource, "gang", 1))
    await world.until("both run", lambda: placed(world, "gang") == 2)
    await world.until("the group runs", lambda: phase_of(world, resource, "gang") == "Running")
    expected = {"Unschedulable", "Scheduled", *(["QueueNotFound"] if spec else [])}
    await world.until(
        "its events", lambda: {reason for reason, _ in said(world, "PodGroup", "gang")} == expected
    )
    assert section(world.stored(resource, "gang") or {}, "status")["running"] == 2


@both
async def test_two_groups_of_which_one_fits_run_one_after_the_other(world: World, resource: Resource) -> None:
    """Their pods come in turn: pod by pod, each group would hold half of the node for ever."""
    for name in ("a", "b"):
        await world.client.create(resource, make_group(resource, name, 2))
    for number in range(2):
        for name in ("a", "b"):
            await world.client.create(PODS, member(resource, name, number))
    await world.until("one runs", lambda: sorted((placed(world, "a"), placed(world, "b"))) == [0, 2])
    first, second = ("a", "b") if placed(world, "a") else ("b", "a")
    why = "0 of 2 pods fit, at least 2 must: 0/1 nodes are available: 1 Insufficient cpu."
    await world.until("the pods of the other say why", lambda: waits(world, f"{second}-1", why))
    await world.until(
        "and so does the group", lambda: any(why in text for _, text in said(world, "PodGroup", second))
    )
    for number in range(2):
        await world.kubelet.report(world.stored(PODS, f"{first}-{number}") or {}, "Succeeded")
    await world.until("the other runs", lambda: placed(world, second) == 2)
    ended = "Completed" if resource == VOLCANO_PODGROUPS else "Finished"
    await world.until("the first is over", lambda: phase_of(world, resource, first) == ended)


@both
async def test_the_group_with_the_more_important_pods_goes_first(world: World, resource: Resource) -> None:
    """Neither names a priority of its own, and the other came first."""
    await world.client.create(PRIORITYCLASSES, {"metadata": {"name": "high"}, "value": 100})
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": True}})
    for name, priority in (("a", {}), ("b", {"priorityClassName": "high"})):
        await world.client.create(resource, make_group(resource, name, 2))
        for number in range(2):
            await world.client.create(PODS, member(resource, name, number, **priority))
    for name in ("a", "b"):
        await world.until(f"{name} waits", lambda name=name: waits(world, f"{name}-1", "unschedulable"))
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": None}})
    await world.until("the more important one runs", lambda: placed(world, "b") == 2)
    await world.settle()
    assert placed(world, "a") == 0


async def test_volcano_lets_groups_in_by_priority_before_they_have_pods(world: World) -> None:
    """Both would fit; neither has pods. The better one keeps its place until its pods are there."""
    await world.client.create(PRIORITYCLASSES, {"metadata": {"name": "important"}, "value": 100})
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": True}})
    needs = {"minResources": {"cpu": "8"}}
    for name, priority in (("low", {}), ("top", {"priorityClassName": "important"})):
        await world.client.create(
            VOLCANO_PODGROUPS, make_group(VOLCANO_PODGROUPS, name, 2, **needs, **priority)
        )
    why = "its minResources are not free: cpu: needed 8, free 0"
    for name in ("low", "top"):
        await world.until(
            f"{name} says why", lambda name=name: ("Unschedulable", why) in said(world, "PodGroup", name)
        )
        assert phase_of(world, VOLCANO_PODGROUPS, name) == "Pending"
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": None}})
    await world.until("top is let in", lambda: phase_of(world, VOLCANO_PODGROUPS, "top") == "Inqueue")
    await world.settle()
    assert phase_of(world, VOLCANO_PODGROUPS, "low") == "Pending"
    for number in range(2):
        await world.client.create(PODS, member(VOLCANO_PODGROUPS, "top", number))
    await world.until("top runs", lambda: phase_of(world, VOLCANO_PODGROUPS, "top") == "Running")
    for number in range(2):
        await world.client.delete(PODS, f"top-{number}", "default")
    await world.until("low is let in", lambda: phase_of(world, VOLCANO_PODGROUPS, "low") == "Inqueue")


async def test_queues_have_an_order_and_a_capability(world: World) -> None:
    """The group of the better queue came later, and its name is later, too."""
    for name, spec in (("first", {"priority": 5}), ("small", {"capability": {"cpu": "4"}})):
        queue = {
            "apiVersion": VOLCANO_QUEUES.api_version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        await world.client.create(VOLCANO_QUEUES, queue)
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": True}})
    await create(world, VOLCANO_PODGROUPS, "slow", pods=2, least=2)
    await create(world, VOLCANO_PODGROUPS, "urgent", pods=2, least=2, queue="first")
    await create(world, VOLCANO_PODGROUPS, "wide", pods=2, least=2, queue="small")
    for name in ("slow", "urgent"):
        await world.until(f"{name} waits", lambda name=name: waits(world, f"{name}-1", "unschedulable"))
    why = 'queue "small" has reached its capability: cpu: needed 8, free 4'
    await world.until("too wide", lambda: waits(world, "wide-0", why))
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": None}})
    await world.until("the first queue goes first", lambda: placed(world, "urgent") == 2)
    assert placed(world, "slow") == 0
    await world.client.patch(VOLCANO_QUEUES, "small", None, {"spec": {"capability": {"cpu": "8"}}})
    for number in range(2):
        await world.client.delete(PODS, f"urgent-{number}", "default")
    await world.until("then one of the others", lambda: placed(world, "slow") + placed(world, "wide") == 2)


async def test_a_group_that_waits_for_longer_than_it_is_to_is_told(world: World) -> None:
    await create(world, COSCHEDULING_PODGROUPS, "big", pods=3, least=3, scheduleTimeoutSeconds=1)
    await world.until(
        "it is told", lambda: any(r == "ScheduleTimeout" for r, _ in said(world, "PodGroup", "big"))
    )
    assert placed(world, "big", 3) == 0
    await world.client.patch(COSCHEDULING_PODGROUPS, "big", "default", {"spec": {"minMember": 2}})
    await world.until("an edit is followed", lambda: placed(world, "big", 3) == 2)


async def test_pods_of_a_group_that_does_not_exist_wait_for_it(world: World) -> None:
    await world.client.create(PODS, member(VOLCANO_PODGROUPS, "gang", 0))
    await world.until(
        "it says so", lambda: waits(world, "gang-0", "there is no such PodGroup of scheduling.volcano.sh")
    )
    await world.client.create(VOLCANO_PODGROUPS, make_group(VOLCANO_PODGROUPS, "gang", 1))
    await world.until("it runs", lambda: placed(world, "gang") == 1)


async def test_a_scheduler_that_is_not_there_is_named_with_the_remedy(world: World) -> None:
    for name, spec in (("kai", {}), ("marked", MARKS[VOLCANO_PODGROUPS]("gang"))):
        pod = needing(name)
        pod["metadata"] |= spec
        pod["spec"]["schedulerName"] = "kai-scheduler"
        await world.client.create(PODS, pod)
    text = 'no scheduler "kai-scheduler" runs on this cluster: leave spec.schedulerName out, or name one of'
    for name in ("kai", "marked"):
        await world.until(f"{name} says so", lambda name=name: waits(world, name, text))
        await world.until(
            "an event, too", lambda name=name: any(text in message for _, message in said(world, "Pod", name))
        )
    assert (scheduled(world, "kai") or {})["reason"] == "Unschedulable"


async def test_definitions_of_others_are_left_alone(world: World) -> None:
    name = COSCHEDULING_PODGROUPS.group_resource
    await world.client.patch(
        CRDS, name, None, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    )
    version = {"spec": {"names": {"shortNames": ["pgx"]}}}
    await world.client.patch(CRDS, name, None, version)
    await install(world.client)
    assert (await world.client.get(CRDS, name))["spec"]["names"]["shortNames"] == ["pgx"]


async def test_a_group_gives_way_as_a_whole_and_has_others_give_way_as_a_whole(world: World) -> None:
    """Half a gang is of no use: when one of its pods must go, all do; and nobody goes for half a gang."""
    await world.client.create(PRIORITYCLASSES, {"metadata": {"name": "high"}, "value": 1000})
    await create(world, VOLCANO_PODGROUPS, "low", pods=2, least=2)
    await world.until("it runs", lambda: placed(world, "low") == 2)
    await world.client.create(VOLCANO_PODGROUPS, make_group(VOLCANO_PODGROUPS, "big", 3))
    for number in range(3):
        await world.client.create(PODS, member(VOLCANO_PODGROUPS, "big", number, priorityClassName="high"))
    await world.until("three do not fit, whoever goes", lambda: waits(world, "big-0", "0 of 3 pods fit"))
    await world.settle()
    assert placed(world, "low") == 2
    await world.client.create(VOLCANO_PODGROUPS, make_group(VOLCANO_PODGROUPS, "mid", 1))
    await world.client.create(PODS, member(VOLCANO_PODGROUPS, "mid", 0, priorityClassName="high"))
    await world.until("one does", lambda: node_of(world, "mid-0") == "laptop")
    assert world.stored(PODS, "low-0") is None and world.stored(PODS, "low-1") is None
    text = "Preempted by pod group default/mid on node laptop"

    def told() -> dict[str, str]:
        events = [e for e in world.all(EVENTS) if e["reason"] == "Preempted"]
        return {e["involvedObject"]["name"]: e["message"] for e in events}

    await world.until("both are told", lambda: told() == {"low-0": text, "low-1": text})
