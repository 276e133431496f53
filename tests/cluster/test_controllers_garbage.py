"""Garbage collection and the end of namespaces on the real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import CA, World, cluster, make_pod
from trainshed.cluster.store import Store, keys
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import (
    CLUSTERROLES,
    CONFIGMAPS,
    CRDS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICEACCOUNTS,
    Resource,
)

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


async def make(
    world: World, name: str, *owners: Object, namespace: str = "default", **metadata: Any
) -> Object:
    """Create a ConfigMap with owners."""
    references = [{k: v for k, v in controller_reference(o).items() if k != "controller"} for o in owners]
    obj = {"metadata": {"name": name, "namespace": namespace, "ownerReferences": references, **metadata}}
    return await world.client.create(CONFIGMAPS, obj)


def gone(world: World, *names: str, namespace: str = "default") -> bool:
    return all(world.stored(CONFIGMAPS, name, namespace) is None for name in names)


async def test_background_follows_the_chain(world: World) -> None:
    a = await make(world, "a")
    b = await make(world, "b", a)
    await make(world, "c", b)
    await make(world, "other")
    await world.client.delete(CONFIGMAPS, "a", "default", propagation_policy="Background")
    await world.until("b and c gone", lambda: gone(world, "a", "b", "c"))
    assert not gone(world, "other")


async def test_definitions_are_read_once_for_all_owners_of_unknown_kinds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, listed = 0, Store.list

    def counted(store: Store, prefix: str) -> Any:
        nonlocal read
        read += prefix == keys.under(CRDS)
        return listed(store, prefix)

    a = await make(world, "a")
    unknown = [
        {"apiVersion": f"v{i}.example.com/v1", "kind": f"K{i}", "metadata": {"name": "x", "uid": f"u{i}"}}
        for i in range(2_000)
    ]
    await make(world, "child", a, *unknown)
    monkeypatch.setattr(Store, "list", counted)
    await world.client.delete(CONFIGMAPS, "a", "default")

    def owners() -> list[Object]:
        child = world.stored(CONFIGMAPS, "child")
        return child["metadata"]["ownerReferences"] if child else []

    await world.until("a let go", lambda: len(owners()) == len(unknown))
    assert read < 50


async def test_one_owner_left_keeps_the_dependent(world: World) -> None:
    a, b = await make(world, "a"), await make(world, "b")
    await make(world, "child", a, b)
    await world.client.delete(CONFIGMAPS, "a", "default")

    def owners() -> list[str]:
        child = world.stored(CONFIGMAPS, "child") or {"metadata": {}}
        return [r["name"] for r in child["metadata"].get("ownerReferences") or ()]

    await world.until("the reference is dropped", lambda: owners() == ["b"])
    await world.client.delete(CONFIGMAPS, "b", "default")
    await world.until("child gone", lambda: gone(world, "child"))


async def test_a_dangling_owner_from_the_start(world: World) -> None:
    a = await make(world, "a")
    await world.client.delete(CONFIGMAPS, "a", "default")
    await make(world, "child", a)
    await world.until("child gone", lambda: gone(world, "child"))
    other_uid = {**a, "metadata": {**a["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    await make(world, "child", other_uid)
    await world.until("child gone", lambda: gone(world, "child"))


async def test_a_dangling_owner_that_is_added_later(world: World) -> None:
    a = await make(world, "a")
    await world.client.delete(CONFIGMAPS, "a", "default")
    await make(world, "child")
    patch = {"metadata": {"ownerReferences": [controller_reference(a)]}}
    await world.client.patch(CONFIGMAPS, "child", "default", patch)
    await world.until("child gone", lambda: gone(world, "child"))


async def test_a_name_taken_again_does_not_keep_dependents(world: World) -> None:
    a = await make(world, "a")
    await make(world, "child", a)
    await world.client.delete(CONFIGMAPS, "a", "default")
    await make(world, "a")
    await world.until("child gone", lambda: gone(world, "child"))
    await world.settle()
    assert not gone(world, "a")


async def test_an_owner_in_another_namespace_does_not_count(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    a = await make(world, "a", namespace="ns")
    await make(world, "child", a)
    await world.until("child gone", lambda: gone(world, "child"))
    role = {"metadata": {"name": "role", "ownerReferences": [controller_reference(a)]}, "rules": []}
    await world.client.create(CLUSTERROLES, role)

    def told() -> dict[str, Object]:
        found = [event for event in world.all(EVENTS) if event["reason"] == "OwnerRefInvalidNamespace"]
        return {event["involvedObject"]["name"]: event for event in found}

    await world.until("both told", lambda: told().keys() == {"child", "role"})
    for name, home in (("child", "default"), ("role", "")):
        owner = f"[v1/ConfigMap, namespace: {home}, name: a, uid: {a['metadata']['uid']}]"
        event = told()[name]
        assert event["message"] == f'ownerRef {owner} does not exist in namespace "{home}"'
        assert (event["type"], event["source"]["component"]) == ("Warning", "garbage-collector-controller")


async def test_what_cannot_be_verified_is_kept(world: World) -> None:
    unknown = {
        "apiVersion": "example.com/v1",
        "kind": "Unknown",
        "metadata": {"name": "x", "uid": "00000000-0000-0000-0000-000000000000"},
    }
    await make(world, "child", unknown)
    a = await make(world, "a")
    role = {"metadata": {"name": "role", "ownerReferences": [controller_reference(a)]}, "rules": []}
    await world.client.create(CLUSTERROLES, role)
    await world.settle()
    assert not gone(world, "child") and world.stored(CLUSTERROLES, "role")


async def test_a_cluster_scoped_owner(world: World) -> None:
    node = await world.add_node("gone")
    await make(world, "child", node)
    await world.settle()
    assert not gone(world, "child")
    await world.client.delete(NODES, "gone")
    await world.until("child gone", lambda: gone(world, "child"))


async def test_foreground_waits_for_the_pods_that_block(world: World) -> None:
    a = await make(world, "a")
    pod = make_pod("slow")
    pod["metadata"]["ownerReferences"] = [controller_reference(a)]
    await world.client.create(PODS, pod)
    await world.until("running", lambda: is_ready(world.stored(PODS, "slow") or {}))
    world.kubelet.lets_go = lambda pod: False
    await world.client.delete(CONFIGMAPS, "a", "default", propagation_policy="Foreground")
    await world.until(
        "the pod ends", lambda: (world.stored(PODS, "slow") or a)["metadata"].get("deletionTimestamp")
    )
    await world.settle()
    assert not gone(world, "a")
    world.kubelet.lets_go = lambda pod: True
    world.kubelet.release()
    await world.until("both gone", lambda: gone(world, "a") and world.stored(PODS, "slow") is None)


async def test_foreground_through_three_levels_and_past_one_that_does_not_block(world: World) -> None:
    a = await make(world, "a")
    b = await make(world, "b", a)
    await make(world, "c", b)
    held = await make(world, "held", finalizers=["example.com/hold"])
    reference = {**controller_reference(a), "blockOwnerDeletion": False}
    await world.client.patch(
        CONFIGMAPS, held["metadata"]["name"], "default", {"metadata": {"ownerReferences": [reference]}}
    )
    await world.client.delete(CONFIGMAPS, "a", "default", propagation_policy="Foreground")
    await world.until("a, b, c gone", lambda: gone(world, "a", "b", "c"))
    assert (world.stored(CONFIGMAPS, "held") or a)["metadata"].get("deletionTimestamp")
    await world.client.patch(CONFIGMAPS, "held", "default", {"metadata": {"finalizers": None}})
    assert gone(world, "held")


async def circle(world: World, size: int) -> list[str]:
    """Make ConfigMaps each of which is owned by the next, the last one by the first."""
    made = [await make(world, f"circle-{number}") for number in range(size)]
    for number, obj in enumerate(made):
        patch = {"metadata": {"ownerReferences": [controller_reference(made[(number + 1) % size])]}}
        await world.client.patch(CONFIGMAPS, obj["metadata"]["name"], "default", patch)
    return [obj["metadata"]["name"] for obj in made]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("policy", ["Foreground", "Background"])
async def test_a_circle_of_owners_does_not_wait_for_itself(world: World, size: int, policy: str) -> None:
    """Kubernetes e2e: Garbage collector should not be blocked by dependency circle."""
    names = await circle(world, size)
    await world.client.delete(CONFIGMAPS, names[0], "default", propagation_policy=policy)
    await world.until("the circle is gone", lambda: gone(world, *names))


async def test_a_circle_all_of_which_is_deleted_while_nobody_looks(world: World) -> None:
    names = await circle(world, 3)
    above = await make(world, "above")
    reference = {
        "metadata": {
            "ownerReferences": [
                *((world.stored(CONFIGMAPS, names[0]) or {})["metadata"]["ownerReferences"]),
                {**controller_reference(above), "controller": False},
            ]
        }
    }
    await world.client.patch(CONFIGMAPS, names[0], "default", reference)
    await world.stop()
    for name in ("above", *names):
        await world.client.delete(CONFIGMAPS, name, "default", propagation_policy="Foreground")
    await world.start()
    await world.until("all gone", lambda: gone(world, "above", *names))


async def test_orphans_stay(world: World) -> None:
    a = await make(world, "a")
    await make(world, "child", a)
    await world.client.delete(CONFIGMAPS, "a", "default", propagation_policy="Orphan")
    await world.until("a gone", lambda: gone(world, "a"))
    await world.settle()
    child = world.stored(CONFIGMAPS, "child")
    assert child is not None and not child["metadata"].get("ownerReferences")


async def test_deleting_a_definition_deletes_its_resources_and_their_dependents(world: World) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    await world.client.create(CRDS, definition)
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
    }
    await make(world, "child", await world.client.create(WIDGETS, widget))
    await world.settle()
    assert not gone(world, "child")
    await world.client.delete(CRDS, "widgets.example.com")
    await world.until(
        "all gone", lambda: gone(world, "child") and world.stored(CRDS, "widgets.example.com") is None
    )
    assert not world.all(WIDGETS)


async def test_after_a_restart_nothing_is_forgotten(world: World) -> None:
    a = await make(world, "a")
    await make(world, "child", a)
    await world.stop()
    await world.client.delete(CONFIGMAPS, "a", "default")
    b = await make(world, "b")
    await make(world, "held", b)
    await world.client.delete(CONFIGMAPS, "b", "default", propagation_policy="Foreground")
    await world.start()
    await world.until("all gone", lambda: gone(world, "child", "b", "held"))


# ----------------------------------------------------------------------------------------------- namespaces


async def test_a_namespace_starts_with_an_account_and_the_ca_and_gets_them_back(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "ns"}})

    def complete() -> bool:
        found = world.stored(CONFIGMAPS, "kube-root-ca.crt", "ns")
        return bool(
            world.stored(SERVICEACCOUNTS, "default", "ns") and found and found["data"] == {"ca.crt": CA}
        )

    await world.until("account and CA", complete)
    await world.client.delete(SERVICEACCOUNTS, "default", "ns")
    await world.until("the account again", complete)
    await world.client.delete(CONFIGMAPS, "kube-root-ca.crt", "ns")
    await world.until("the CA again", complete)
    await world.client.patch(CONFIGMAPS, "kube-root-ca.crt", "ns", {"data": {"ca.crt": "forged"}})
    await world.until("the right CA again", complete)
    await world.client.patch(CONFIGMAPS, "kube-root-ca.crt", "ns", {"data": {"more": "x"}})
    await world.until("nothing but the CA", complete)


async def test_a_namespace_goes_when_its_last_finalizer_does(world: World) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await make(world, "held", namespace="ns", finalizers=["example.com/hold"])
    for number in range(20):
        await make(world, f"plain-{number}", namespace="ns")
    pod = make_pod("pod")
    pod["metadata"]["namespace"] = "ns"
    await world.client.create(PODS, pod)
    await world.until("running", lambda: is_ready(world.stored(PODS, "pod", "ns") or {}))
    await world.client.delete(NAMESPACES, "ns")
    await world.until(
        "only the held one", lambda: len(world.all(CONFIGMAPS, "ns")) == 1 and not world.all(PODS, "ns")
    )
    assert await world.code(make(world, "new", namespace="ns")) == 403

    def conditions() -> dict[str, Object]:
        found = world.stored(NAMESPACES, "ns") or {}
        listed = (found.get("status") or {}).get("conditions") or ()
        return {c["type"]: c for c in listed if c["status"] == "True"}

    await world.until(
        "it says why",
        lambda: "1 resource" in conditions().get("NamespaceContentRemaining", {}).get("message", ""),
    )
    assert "configmaps. has 1 resource instances" in conditions()["NamespaceContentRemaining"]["message"]
    assert "example.com/hold in 1" in conditions()["NamespaceFinalizersRemaining"]["message"]
    await world.settle(quiet=1.2)
    watch = world.store.watch("/core/namespaces/", world.store.revision)
    await world.client.patch(CONFIGMAPS, "held", "ns", {"metadata": {"finalizers": None}})
    await world.until("namespace gone", lambda: world.stored(NAMESPACES, "ns") is None)
    last = watch.drain()[-1]
    watch.close()
    reasons = {c["type"]: (c["status"], c["reason"]) for c in last.stored.obj["status"]["conditions"]}
    assert last.type == "DELETED"
    assert reasons["NamespaceContentRemaining"] == ("False", "ContentRemoved")
    assert reasons["NamespaceFinalizersRemaining"] == ("False", "ContentHasNoFinalizers")
    assert not world.all(SERVICEACCOUNTS, "ns")


async def test_a_namespace_can_be_made_again_at_once(world: World) -> None:
    for _ in range(3):
        await world.client.create(NAMESPACES, {"metadata": {"name": "ns"}})
        await world.client.create(PODS, {**make_pod("pod"), "metadata": {"name": "pod", "namespace": "ns"}})
        await world.client.delete(NAMESPACES, "ns")
        await world.until("namespace gone", lambda: world.stored(NAMESPACES, "ns") is None)
    await world.settle()
    assert not world.all(PODS, "ns") and not world.all(SERVICEACCOUNTS, "ns")
