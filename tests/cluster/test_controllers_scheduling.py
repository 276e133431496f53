"""The scheduler and the endpoints of services on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster, make_pod
from tests.fakes.training import LaggingTransport
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.transport import TransportError
from trainshed.cluster.scheduler.scheduler import Scheduler
from trainshed.cluster.store import keys
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import (
    ENDPOINTS,
    ENDPOINTSLICES,
    EVENTS,
    NODES,
    PODS,
    PRIORITYCLASSES,
    SERVICES,
)
from trainshed.kube.wire.request import Request


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


def scheduled(world: World, name: str) -> Object | None:
    """Return the pod's PodScheduled condition."""
    status = (world.stored(PODS, name) or {}).get("status") or {}
    return next((c for c in status.get("conditions") or () if c["type"] == "PodScheduled"), None)


def node_of(world: World, name: str) -> str:
    return str((world.stored(PODS, name) or {"spec": {}})["spec"].get("nodeName", ""))


def waits(world: World, name: str, text: str) -> bool:
    condition = scheduled(world, name)
    return condition is not None and condition["status"] == "False" and text in condition["message"]


def needing(name: str, **requests: str) -> Object:
    pod = make_pod(name)
    quantities = {k.replace("_", "."): v for k, v in requests.items()}
    pod["spec"]["containers"][0]["resources"] = {"requests": quantities, "limits": quantities}
    return pod


async def test_a_pod_is_bound_and_told_so(world: World) -> None:
    await world.client.create(PODS, make_pod("a"))
    await world.until("bound", lambda: node_of(world, "a") == "laptop")
    condition = scheduled(world, "a")
    assert condition is not None and condition["status"] == "True"
    (event,) = await world.until(
        "an event", lambda: [e for e in world.all(EVENTS) if e["reason"] == "Scheduled"]
    )
    assert event["message"] == "Successfully assigned default/a to laptop"


async def test_many_pods_never_overfill_a_node(world: World) -> None:
    await world.add_node("second", cpu="2")
    pods = [needing(f"p{n}", cpu="1") for n in range(14)]
    await asyncio.gather(*(world.client.create(PODS, pod) for pod in pods))
    await world.until("ten run", lambda: sum(bool(node_of(world, f"p{n}")) for n in range(14)) == 10)
    await world.settle()
    placed = [node_of(world, f"p{n}") for n in range(14)]
    assert (placed.count("laptop"), placed.count("second"), placed.count("")) == (8, 2, 4)
    first = placed.index("laptop")
    await world.client.delete(PODS, f"p{first}", "default")
    await world.until(
        "its place is taken", lambda: sum(bool(node_of(world, f"p{n}")) for n in range(14)) == 10
    )


async def test_a_finished_pod_frees_its_place(world: World) -> None:
    await world.client.create(PODS, needing("a", cpu="8"))
    await world.until("running", lambda: is_ready(world.stored(PODS, "a") or {}))
    await world.client.create(PODS, needing("b", cpu="1"))
    await world.until("b waits", lambda: waits(world, "b", "Insufficient cpu"))
    await world.kubelet.report(world.stored(PODS, "a") or {}, "Succeeded")
    await world.until("b runs", lambda: node_of(world, "b") == "laptop")


async def test_a_waiting_pod_is_explained_once_and_goes_when_a_node_comes(world: World) -> None:
    await world.client.create(PODS, needing("gpu", **{"nvidia.com/gpu": "1"}))
    await world.until("it waits", lambda: waits(world, "gpu", "Insufficient nvidia.com/gpu"))
    await world.settle()
    before = (world.stored(PODS, "gpu") or {})["metadata"]["resourceVersion"]
    await world.client.patch(NODES, "laptop", None, {"metadata": {"labels": {"zone": "a"}}})
    await world.settle()
    assert (world.stored(PODS, "gpu") or {})["metadata"]["resourceVersion"] == before
    await world.add_node("big", **{"nvidia.com/gpu": "2"})
    await world.until("bound", lambda: node_of(world, "gpu") == "big")


async def test_higher_priority_goes_first(world: World) -> None:
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": True}})
    await world.client.create(PODS, needing("low", cpu="8"))
    high = needing("high", cpu="8")
    high["spec"]["priorityClassName"] = "system-cluster-critical"
    await world.client.create(PODS, high)
    await world.until("both wait", lambda: waits(world, "low", "unsched") and waits(world, "high", "unsched"))
    await world.client.patch(NODES, "laptop", None, {"spec": {"unschedulable": None}})
    await world.until("high runs", lambda: node_of(world, "high") == "laptop")
    assert node_of(world, "low") == ""


async def test_gates_hold_a_pod_until_they_are_gone(world: World) -> None:
    made = await world.client.create(PODS, make_pod("gated", schedulingGates=[{"name": "example.com/quota"}]))
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": made["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]
    await world.client.create(PODS, make_pod("free"))
    await world.until("the next one is bound", lambda: node_of(world, "free") == "laptop")
    seen = await world.client.get(PODS, "gated")
    assert seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nobody writes it anew"
    await world.client.patch(PODS, "gated", "default", {"spec": {"schedulingGates": None}})
    await world.until("bound", lambda: node_of(world, "gated") == "laptop")


async def test_pods_keep_apart_and_come_beside_as_they_ask(world: World) -> None:
    """What waits for a pod beside it goes when that one comes, and what waits for a place when that one goes."""
    await world.add_node("second")
    for name in ("laptop", "second"):
        await world.client.patch(NODES, name, None, {"metadata": {"labels": {"host": name}}})
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "db"}}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    await world.client.create(PODS, make_pod("client", affinity={"podAffinity": rules}))
    await world.until(
        "the client waits", lambda: waits(world, "client", "2 node(s) didn't match pod affinity rules")
    )
    for number in range(3):
        pod = make_pod(f"db{number}", affinity={"podAntiAffinity": rules})
        pod["metadata"]["labels"] = {"app": "db"}
        await world.client.create(PODS, pod)
    await world.until("the client runs", lambda: node_of(world, "client"))
    await world.until(
        "the third waits",
        lambda: any(waits(world, f"db{n}", "2 node(s) didn't match pod anti-affinity") for n in range(3)),
    )
    placed = {node_of(world, f"db{n}"): f"db{n}" for n in range(3)}
    assert set(placed) == {"", "laptop", "second"}
    await world.client.delete(PODS, placed["second"], "default")
    await world.until("its place is taken", lambda: node_of(world, placed[""]) == "second")


async def prioritized(world: World, name: str, value: int, **more: Any) -> None:
    await world.client.create(PRIORITYCLASSES, {"metadata": {"name": name}, "value": value, **more})


def important(name: str, level: str, **requests: str) -> Object:
    pod = needing(name, **requests)
    pod["spec"]["priorityClassName"] = level
    return pod


async def test_an_important_pod_has_others_give_way(world: World) -> None:
    await prioritized(world, "high", 1000)
    world.kubelet.lets_go = lambda pod: False
    await world.client.create(PODS, needing("stays", cpu="5"))
    await world.client.create(PODS, needing("goes", cpu="3"))
    await world.until("both run", lambda: node_of(world, "stays") and node_of(world, "goes"))
    await world.client.create(PODS, important("new", "high", cpu="2"))
    await world.until(
        "nominated", lambda: ((world.stored(PODS, "new") or {}).get("status") or {}).get("nominatedNodeName")
    )
    victim = await world.until(
        "the victim is told",
        lambda: (p := world.stored(PODS, "goes")) and p["metadata"].get("deletionTimestamp") and p,
    )
    (condition,) = (c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    await world.client.create(PODS, needing("small", cpu="1"))
    await world.until(
        "it says for whom it waits", lambda: waits(world, "new", "terminating pod on the nominated node")
    )
    world.kubelet.lets_go = lambda pod: True
    world.kubelet.release()
    await world.until("it runs", lambda: node_of(world, "new") == "laptop")
    uid = (world.stored(PODS, "new") or {})["metadata"]["uid"]
    (event,) = await world.until(
        "an event", lambda: [e for e in world.all(EVENTS) if e["reason"] == "Preempted"]
    )
    assert (event["involvedObject"]["name"], event["type"]) == ("goes", "Normal")
    assert event["message"] == f"Preempted by pod {uid} on node laptop" and event.get("count", 1) == 1
    assert node_of(world, "stays") == "laptop"


async def test_the_place_of_a_victim_is_not_taken_by_somebody_else(world: World) -> None:
    """What comes free is kept for who it was freed for, while a lesser pod that fits waits."""
    await prioritized(world, "high", 1000)
    world.kubelet.lets_go = lambda pod: pod["metadata"]["name"] != "slow"
    for name in ("slow", "quick"):
        await world.client.create(PODS, needing(name, cpu="4"))
    await world.until("both run", lambda: node_of(world, "slow") and node_of(world, "quick"))
    await world.client.create(PODS, important("new", "high", cpu="8"))
    await world.until("quick is gone", lambda: world.stored(PODS, "quick") is None)
    await world.client.create(PODS, needing("lesser", cpu="1"))
    await world.until("the lesser one waits", lambda: waits(world, "lesser", "Insufficient cpu"))
    world.kubelet.lets_go = lambda pod: True
    world.kubelet.release()
    await world.until("it runs", lambda: node_of(world, "new") == "laptop")
    assert node_of(world, "lesser") == ""


async def test_a_pod_that_shall_not_preempt_waits(world: World) -> None:
    await prioritized(world, "polite", 1000, preemptionPolicy="Never")
    await world.client.create(PODS, needing("a", cpu="8"))
    await world.until("a runs", lambda: node_of(world, "a"))
    await world.client.create(PODS, important("new", "polite", cpu="1"))
    await world.until("it waits", lambda: waits(world, "new", "not eligible due to preemptionPolicy=Never."))
    assert not (world.stored(PODS, "a") or {})["metadata"].get("deletionTimestamp")


async def test_another_scheduler_s_pods_are_left_alone(world: World) -> None:
    await world.client.create(PODS, make_pod("theirs", schedulerName="other"))
    await world.settle()
    assert node_of(world, "theirs") == "" and scheduled(world, "theirs") is None


class LosingAnswers(AsgiTransport):
    """Carries out every binding, but the first answer is lost."""

    lost = 1

    async def request(self, request: Request) -> Any:
        answer = await super().request(request)
        if request.path.endswith("/binding") and self.lost:
            self.lost -= 1
            raise TransportError("connection reset")
        return answer


async def test_a_lost_answer_and_an_old_mirror_do_not_overfill(world: World) -> None:
    """With answers lost and the watch far behind, a GPU is still given away once."""
    await world.stop()
    await world.add_node("gpu", **{"nvidia.com/gpu": "1"})
    transport = LosingAnswers(world.api, "admin", ["system:masters"])
    client = Client(LaggingTransport(transport, {"pods": 1.5}))
    informers = SharedInformers(client)
    scheduler = Scheduler(client, informers)
    tasks = [asyncio.create_task(part.run()) for part in (scheduler, informers)]
    try:
        pods = [needing(f"p{n}", **{"nvidia.com/gpu": "1"}) for n in range(3)]
        for pod in pods:
            await world.client.create(PODS, pod)
        await world.until("one runs", lambda: any(node_of(world, f"p{n}") for n in range(3)))
        await world.settle(quiet=2.0)
        assert sorted(node_of(world, f"p{n}") for n in range(3)) == ["", "", "gpu"]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ------------------------------------------------------------------------------------------------ endpoints


def make_service(name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "x"}},
        "spec": {
            "selector": {"app": "a"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            **spec,
        },
    }


def addresses(world: World, name: str = "web", field: str = "addresses") -> list[str]:
    subsets = (world.stored(ENDPOINTS, name) or {}).get("subsets") or ()
    return [a["targetRef"]["name"] for subset in subsets for a in subset.get(field) or ()]


def sliced(world: World, name: str = "web") -> dict[str, Object]:
    listed = (world.stored(ENDPOINTSLICES, name) or {}).get("endpoints") or ()
    return {endpoint["targetRef"]["name"]: endpoint["conditions"] for endpoint in listed}


async def test_endpoints_follow_pods(world: World) -> None:
    world.kubelet.ready = lambda pod: False
    await world.client.create(SERVICES, make_service())
    await world.client.create(PODS, make_pod("a"))
    await world.until(
        "waiting", lambda: addresses(world, field="notReadyAddresses") == ["a"] and sliced(world)
    )
    assert sliced(world)["a"] == {"ready": False, "serving": False, "terminating": False}
    await world.kubelet.report(world.stored(PODS, "a") or {}, "Running", ready=True)
    await world.until("ready", lambda: addresses(world) == ["a"] and sliced(world)["a"]["ready"])
    found = world.stored(ENDPOINTSLICES, "web") or {}
    assert found["metadata"]["labels"] == {
        "team": "x",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert (world.stored(ENDPOINTS, "web") or {})["subsets"][0]["ports"] == found["ports"]
    world.kubelet.lets_go = lambda pod: False
    await world.client.delete(PODS, "a", "default")
    await world.until("terminating", lambda: not addresses(world) and sliced(world)["a"]["terminating"])
    world.kubelet.lets_go = lambda pod: True
    world.kubelet.release()
    await world.until("gone", lambda: not sliced(world))
    await world.settle()


async def test_a_selector_or_a_label_that_changes(world: World) -> None:
    for name in ("a", "b"):
        await world.client.create(PODS, make_pod(name))
    await world.client.create(SERVICES, make_service())
    await world.until("a", lambda: addresses(world) == ["a"])
    await world.client.patch(SERVICES, "web", "default", {"spec": {"selector": {"app": "b"}}})
    await world.until("b", lambda: addresses(world) == ["b"])
    await world.client.patch(PODS, "a", "default", {"metadata": {"labels": {"app": "b"}}})
    await world.until("both", lambda: addresses(world) == ["a", "b"])
    await world.client.patch(PODS, "b", "default", {"metadata": {"labels": {"app": "c"}}})
    await world.until("a again", lambda: addresses(world) == ["a"])


async def test_endpoints_that_others_change_are_put_right(world: World) -> None:
    await world.client.create(PODS, make_pod("a"))
    await world.client.create(SERVICES, make_service())
    await world.until("a", lambda: addresses(world) == ["a"] and sliced(world))
    await world.client.delete(ENDPOINTS, "web", "default")
    await world.until("made again", lambda: addresses(world) == ["a"])
    await world.client.patch(ENDPOINTSLICES, "web", "default", {"endpoints": []})
    await world.until("filled again", lambda: sliced(world))


async def test_endpoints_go_and_come_with_their_service(world: World) -> None:
    await world.client.create(PODS, make_pod("a"))
    for _ in range(3):
        service = await world.client.create(SERVICES, make_service())
        uid = service["metadata"]["uid"]

        def owned(uid: str = uid) -> bool:
            found = [world.stored(r, "web") for r in (ENDPOINTS, ENDPOINTSLICES)]
            return all(o and o["metadata"]["ownerReferences"][0]["uid"] == uid for o in found)

        await world.until("owned by the new service", owned)
        await world.client.delete(SERVICES, "web", "default")
    await world.until(
        "gone", lambda: not world.stored(ENDPOINTS, "web") and not world.stored(ENDPOINTSLICES, "web")
    )


async def test_endpoints_without_a_selector_are_the_user_s(world: World) -> None:
    await world.client.create(SERVICES, make_service(selector=None))
    own = {
        "metadata": {"name": "web", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}],
    }
    await world.client.create(ENDPOINTS, own)
    await world.settle()
    assert (world.stored(ENDPOINTS, "web") or {})["subsets"] == own["subsets"]
    assert world.stored(ENDPOINTSLICES, "web") is None


def slices(world: World) -> list[tuple[list[str], list[int]]]:
    """Return addresses and ports of every slice."""
    stored, _ = world.store.list(keys.under(ENDPOINTSLICES))
    found = [one.obj for one in stored if one.obj["metadata"]["name"].startswith("web")]
    return sorted(
        (
            [address for endpoint in one.get("endpoints") or () for address in endpoint["addresses"]],
            [port["port"] for port in one["ports"] or ()],
        )
        for one in found
    )


async def test_endpoints_that_a_user_wrote_are_mirrored_in_slices(world: World) -> None:
    await world.client.create(SERVICES, make_service(selector=None))
    own = {
        "metadata": {"name": "web", "namespace": "default"},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": [{"port": 80}]},
            {"notReadyAddresses": [{"ip": "192.0.2.3"}], "ports": [{"port": 81}]},
        ],
    }
    await world.client.create(ENDPOINTS, own)
    both = [(["192.0.2.1", "192.0.2.2"], [80]), (["192.0.2.3"], [81])]
    await world.until("both", lambda: slices(world) == both)
    await world.client.patch(ENDPOINTS, "web", "default", {"subsets": own["subsets"][:1]})
    await world.until("one", lambda: slices(world) == both[:1])
    skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
    await world.client.patch(ENDPOINTS, "web", "default", skip)
    await world.until("none", lambda: not slices(world))
    skip["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = "false"
    await world.client.patch(ENDPOINTS, "web", "default", skip)
    await world.until("one again", lambda: slices(world) == both[:1])
    await world.client.delete(SERVICES, "web", "default")
    await world.until("none without the Service", lambda: not slices(world))
    await world.until("nor Endpoints, as upstream", lambda: world.stored(ENDPOINTS, "web") is None)


async def test_a_port_by_name_is_each_pods_own_number(world: World) -> None:
    for name, number in (("a", 8000), ("b", 8001), ("c", 0)):
        pod = make_pod(name)
        pod["metadata"]["labels"] = {"app": "a"}
        if number:
            pod["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": number}]
        await world.client.create(PODS, pod)
    ports = [{"name": "x", "port": 80, "targetPort": "http"}]
    await world.client.create(SERVICES, make_service(ports=ports))
    await world.until("three", lambda: sorted(ports for _, ports in slices(world)) == [[], [8000], [8001]])
    subsets = (world.stored(ENDPOINTS, "web") or {})["subsets"]
    found = {
        one["targetRef"]["name"]: subset["ports"][0]["port"]
        for subset in subsets
        for one in subset["addresses"]
    }
    assert found == {"a": 8000, "b": 8001}
    await world.client.delete(PODS, "b", "default")
    await world.client.delete(PODS, "c", "default")
    await world.until("one", lambda: [ports for _, ports in slices(world)] == [[8000]])


async def test_a_starting_pod_costs_few_writes_of_endpoints(world: World) -> None:
    world.kubelet.ready = lambda pod: False
    await world.client.create(SERVICES, make_service(clusterIP="None"))
    await world.client.create(PODS, make_pod("a"))
    await world.until("address", lambda: ((world.stored(PODS, "a") or {}).get("status") or {}).get("podIP"))
    await world.kubelet.report(world.stored(PODS, "a") or {}, "Running", ready=True)
    await world.until("a", lambda: addresses(world) == ["a"])
    await world.settle()
    watch = world.store.watch("/core/endpoints/", world.store.floor)
    writes = [event for event in watch.drain() if event.key.endswith("/web")]
    watch.close()
    assert len(writes) <= 2, "changes that come together are written together"
