"""Nodes that are no longer heard of, and pods that have to leave: on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster, make_pod
from tests.cluster.test_controllers_scheduling import node_of
from trainshed.kube.meta.objects import Object, condition
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import EVENTS, LEASES, NODES, PODS
from trainshed.kube.meta.times import format_micro_time

LEASE_NAMESPACE = "kube-node-lease"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


def taints(world: World, node: str = "laptop") -> set[str]:
    found = (world.stored(NODES, node) or {"spec": {}})["spec"].get("taints") or ()
    return {f"{taint['key'].rpartition('/')[2]}:{taint['effect']}" for taint in found}


def events(world: World, reason: str) -> list[str]:
    return [str(event["message"]) for event in world.all(EVENTS) if event["reason"] == reason]


def gone(world: World, pod: str) -> bool:
    return world.stored(PODS, pod) is None


def tolerating(name: str, seconds: int | None = None) -> Object:
    toleration: dict[str, Any] = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
    return make_pod(
        name, tolerations=[toleration | ({} if seconds is None else {"tolerationSeconds": seconds})]
    )


async def test_a_taint_evicts_those_that_do_not_tolerate_it_and_others_when_their_time_has_come(
    world: World,
) -> None:
    for pod in (make_pod("plain"), tolerating("patient"), tolerating("brief", 1), tolerating("spared", 3600)):
        await world.client.create(PODS, pod)
    names = ("plain", "patient", "brief", "spared")
    await world.until("all run", lambda: all(is_ready(world.stored(PODS, name) or {}) for name in names))
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await world.client.patch(NODES, "laptop", None, {"spec": {"taints": [taint]}})
    await world.until("two are gone", lambda: gone(world, "plain") and gone(world, "brief"))
    assert "Marking for deletion Pod default/plain" in events(world, "TaintManagerEviction")
    await world.client.patch(NODES, "laptop", None, {"spec": {"taints": None}})
    text = "Cancelling deletion of Pod default/spared"
    await world.until("the other is spared", lambda: text in events(world, "TaintManagerEviction"))
    assert not gone(world, "patient") and not gone(world, "spared")


async def test_an_evicted_pod_says_why(world: World) -> None:
    world.kubelet.lets_go = lambda pod: False
    await world.client.create(PODS, make_pod("plain"))
    await world.until("it runs", lambda: is_ready(world.stored(PODS, "plain") or {}))
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await world.client.patch(NODES, "laptop", None, {"spec": {"taints": [taint]}})

    def deleted() -> Object | None:
        pod = world.stored(PODS, "plain") or {"metadata": {}}
        return pod if pod["metadata"].get("deletionTimestamp") else None

    mark = condition(await world.until("it is to go", deleted), "DisruptionTarget")
    assert mark is not None and mark["reason"] == "DeletionByTaintManager"


async def test_a_cordoned_node_has_the_taint_that_says_so(world: World) -> None:
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": True}})
    await world.until("tainted", lambda: taints(world) == {"unschedulable:NoSchedule"})
    own = [{"key": "mine", "effect": "NoSchedule"}, *(world.stored(NODES, "laptop") or {})["spec"]["taints"]]
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": None, "taints": own}})
    await world.until("its own stays", lambda: taints(world) == {"mine:NoSchedule"})


async def renew(world: World, node: str) -> None:
    spec = {"holderIdentity": node, "leaseDurationSeconds": 40}
    while True:
        spec["renewTime"] = format_micro_time(asyncio.get_running_loop().time())
        lease = {"metadata": {"name": node, "namespace": LEASE_NAMESPACE}, "spec": spec}
        await world.client.apply(
            LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}, field_manager="t"
        )
        await asyncio.sleep(0.1)


async def test_a_node_that_is_lost_and_comes_back(world: World) -> None:
    """Silent, it is unreachable; its pods are not ready, and go when they have tolerated it long enough."""
    await world.stop()
    world.node_grace = 1.0
    await world.start()
    await world.add_node("other")
    renewing = [asyncio.create_task(renew(world, node)) for node in ("laptop", "other")]
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    brief = {**unreachable, "tolerationSeconds": 1}
    for name, toleration in (("brief", brief), ("stays", unreachable)):
        pod = make_pod(name, tolerations=[toleration], nodeSelector={"lost": "yes"})
        await world.client.create(PODS, pod)
    await world.client.patch(NODES, "laptop", None, {"metadata": {"labels": {"lost": "yes"}}})
    await world.until(
        "both run", lambda: all(is_ready(world.stored(PODS, n) or {}) for n in ("brief", "stays"))
    )
    renewing[0].cancel()
    both = {"unreachable:NoSchedule", "unreachable:NoExecute"}
    await world.until("unreachable", lambda: taints(world) == both)
    ready = condition(world.stored(NODES, "laptop") or {}, "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert ready["message"] == "Kubelet stopped posting node status."
    await world.until("nobody is sent there", lambda: not is_ready(world.stored(PODS, "stays") or {}))
    await world.until(
        "told",
        lambda: "Node laptop status is now: NodeNotReady" in [str(e["message"]) for e in world.all(EVENTS)],
    )
    await world.until("the brief one is gone", lambda: gone(world, "brief"))
    assert not gone(world, "stays") and taints(world, "other") == set()
    await world.client.create(PODS, make_pod("new"))
    await world.until("new pods go elsewhere", lambda: node_of(world, "new") == "other")
    renewing.append(asyncio.create_task(renew(world, "laptop")))
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
    await world.client.patch(NODES, "laptop", None, {"status": status}, subresource="status")
    await world.until("it is back", lambda: taints(world) == set())
    for task in renewing:
        task.cancel()
    await asyncio.gather(*renewing, return_exceptions=True)
