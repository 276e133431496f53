"""Claims and volumes on the real API server: static binding, provisioning, protection, release."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster, make_pod
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import (
    EVENTS,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODS,
    STORAGECLASSES,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


def make_volume(
    name: str = "pv", size: str = "10Gi", labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "storageClassName": "manual",
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": f"/data/{name}"},
            **spec,
        },
    }


def make_claim(name: str = "claim", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "3Gi"}},
            **spec,
        },
    }


def make_user(name: str, claim: str) -> Object:
    return make_pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


def phase(world: World, resource: Any, name: str) -> str:
    found = world.stored(resource, name) or {}
    return str((found.get("status") or {}).get("phase"))


def bound(world: World, claim: str = "claim") -> Object | None:
    found = world.stored(PERSISTENTVOLUMECLAIMS, claim)
    return found if found is not None and phase(world, PERSISTENTVOLUMECLAIMS, claim) == "Bound" else None


def reasons(world: World, name: str) -> set[str]:
    return {e["reason"] for e in world.all(EVENTS) if e["involvedObject"]["name"] == name}


@pytest.mark.parametrize("claim_first", [True, False])
async def test_a_selector_picks_its_volume_and_both_sides_say_so(world: World, claim_first: bool) -> None:
    claim = make_claim(storageClassName="manual", selector={"matchLabels": {"name": "data"}})
    volumes = [make_volume("other", "3Gi"), make_volume("data", labels={"name": "data"})]
    writes = [(PERSISTENTVOLUMES, v) for v in volumes]
    writes.insert(0 if claim_first else 2, (PERSISTENTVOLUMECLAIMS, claim))
    for resource, obj in writes:
        await world.client.create(resource, obj)
    found = await world.until("Bound", lambda: bound(world))
    assert found["spec"]["volumeName"] == "data"
    assert found["status"]["capacity"] == {"storage": "10Gi"}
    assert found["status"]["accessModes"] == ["ReadWriteMany"]
    annotations = found["metadata"]["annotations"]
    assert annotations["pv.kubernetes.io/bind-completed"] == "yes"
    assert annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
    await world.until("the volume says so", lambda: phase(world, PERSISTENTVOLUMES, "data") == "Bound")
    await world.until("the other is free", lambda: phase(world, PERSISTENTVOLUMES, "other") == "Available")
    await world.settle()
    volume = world.stored(PERSISTENTVOLUMES, "data") or {}
    assert volume["status"]["phase"] == "Bound"
    reference = volume["spec"]["claimRef"]
    assert (reference["kind"], reference["namespace"], reference["name"]) == (
        "PersistentVolumeClaim",
        "default",
        "claim",
    )
    assert reference["uid"] == found["metadata"]["uid"]


async def test_two_claims_never_get_the_same_volume(world: World) -> None:
    claims = [make_claim(f"c{n}", storageClassName="manual") for n in range(6)]
    await asyncio.gather(*(world.client.create(PERSISTENTVOLUMECLAIMS, c) for c in claims))
    await asyncio.gather(*(world.client.create(PERSISTENTVOLUMES, make_volume(f"v{n}")) for n in range(4)))
    await world.until("four bound", lambda: sum(bound(world, f"c{n}") is not None for n in range(6)) == 4)
    await world.settle()
    names = [found["spec"]["volumeName"] for n in range(6) if (found := bound(world, f"c{n}"))]
    assert sorted(names) == ["v0", "v1", "v2", "v3"]


async def test_the_default_class_provisions_a_directory_and_reclaims_it(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    claim = await world.until("Bound", lambda: bound(world))
    name = claim["spec"]["volumeName"]
    volume = await world.until(
        "volume Bound",
        lambda: phase(world, PERSISTENTVOLUMES, name) == "Bound" and world.stored(PERSISTENTVOLUMES, name),
    )
    directory = Path(volume["spec"]["hostPath"]["path"])
    assert directory.is_dir() and directory.parent == world.volumes
    (directory / "model.pt").write_text("weights")
    (directory / "sealed").mkdir()
    (directory / "sealed" / "file").write_text("x")
    (directory / "sealed").chmod(0o500)
    assert (
        claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"]
        == "trainshed.dev/hostdir"
    )
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.until("volume gone", lambda: world.stored(PERSISTENTVOLUMES, name) is None)
    assert not directory.exists()


async def test_deleting_the_volume_first_removes_its_directory_too(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    claim = await world.until("Bound", lambda: bound(world))
    name = claim["spec"]["volumeName"]
    await world.client.delete(PERSISTENTVOLUMES, name)
    await world.settle()
    assert bound(world) and any(world.volumes.iterdir()), "protected while it is bound"
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.until("volume gone", lambda: world.stored(PERSISTENTVOLUMES, name) is None)
    assert not any(world.volumes.iterdir())


async def test_a_retained_volume_is_released_and_bound_again_when_its_reference_is_cleared(
    world: World,
) -> None:
    await world.client.create(PERSISTENTVOLUMES, make_volume())
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="manual"))
    await world.until("Bound", lambda: bound(world))
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.until("Released", lambda: phase(world, PERSISTENTVOLUMES, "pv") == "Released")
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="manual"))
    await world.settle()
    assert bound(world) is None, "its data belongs to the claim before"
    await world.client.patch(PERSISTENTVOLUMES, "pv", None, {"spec": {"claimRef": None}})
    await world.until("Bound", lambda: bound(world))


async def test_a_volume_that_is_not_ours_is_never_deleted(world: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    volume = make_volume(hostPath={"path": str(data)}, persistentVolumeReclaimPolicy="Delete")
    await world.client.create(PERSISTENTVOLUMES, volume)
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="manual"))
    await world.until("Bound", lambda: bound(world))
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.until("an event", lambda: "VolumeFailedDelete" in reasons(world, "pv"))
    await world.settle()
    assert data.is_dir() and phase(world, PERSISTENTVOLUMES, "pv") == "Released"


async def test_a_claim_in_use_stays_until_its_pod_has_ended(world: World) -> None:
    await world.client.create(PODS, make_user("user", "claim"), namespace="default")
    await world.until("it says why it waits", lambda: "FailedScheduling" in reasons(world, "user"))
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    await world.until("it runs", lambda: is_ready(world.stored(PODS, "user") or {"metadata": {}}))
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.settle()
    claim = world.stored(PERSISTENTVOLUMECLAIMS, "claim")
    assert claim is not None and claim["metadata"]["deletionTimestamp"]
    await world.client.create(PODS, make_user("late", "claim"), namespace="default")
    await world.until("the late one waits", lambda: "FailedScheduling" in reasons(world, "late"))
    await world.client.delete(PODS, "user", "default")
    await world.until("claim gone", lambda: world.stored(PERSISTENTVOLUMECLAIMS, "claim") is None)
    assert not (world.stored(PODS, "late") or {"spec": {}})["spec"].get("nodeName")


async def test_a_claim_whose_volume_vanished_is_lost_and_gets_no_other(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    claim = await world.until("Bound", lambda: bound(world))
    name = claim["spec"]["volumeName"]
    await world.until("Bound", lambda: phase(world, PERSISTENTVOLUMES, name) == "Bound")
    await world.client.delete(PERSISTENTVOLUMES, name)
    await world.client.patch(PERSISTENTVOLUMES, name, None, {"metadata": {"finalizers": None}})
    await world.until("Lost", lambda: phase(world, PERSISTENTVOLUMECLAIMS, "claim") == "Lost")
    await world.settle()
    assert phase(world, PERSISTENTVOLUMECLAIMS, "claim") == "Lost"
    assert not world.all(PERSISTENTVOLUMES)


async def test_old_mirrors_neither_lose_nor_free_a_claim(world: World) -> None:
    await world.stop()
    world.lag = {"persistentvolumes": 0.5, "pods": 1.0}
    await world.start()
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    await world.until("Bound", lambda: bound(world))
    await world.settle(quiet=0.8)
    assert bound(world), "the mirror of volumes did not show its volume yet"
    user = make_user("user", "claim")
    user["spec"]["nodeName"] = "laptop"
    await world.client.create(PODS, user, namespace="default")
    await world.client.delete(PERSISTENTVOLUMECLAIMS, "claim", "default")
    await world.settle(quiet=1.5)
    assert world.stored(PERSISTENTVOLUMECLAIMS, "claim"), "the mirror of pods did not show its user yet"
    await world.client.delete(PODS, "user", "default", grace_period_seconds=0)
    await world.until("claim gone", lambda: world.stored(PERSISTENTVOLUMECLAIMS, "claim") is None)


async def test_a_class_added_later_serves_the_claims_that_wait(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="fast"))
    await world.until("an event", lambda: "ProvisioningFailed" in reasons(world, "claim"))
    later = {"metadata": {"name": "fast"}, "provisioner": "trainshed.dev/hostdir"}
    await world.client.create(STORAGECLASSES, later)
    await world.until("Bound", lambda: bound(world))


async def test_a_claim_without_class_gets_the_default_class_when_there_is_one(world: World) -> None:
    await world.client.delete(STORAGECLASSES, "standard")
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    await world.until("an event", lambda: "FailedBinding" in reasons(world, "claim"))
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    later = {"metadata": {"name": "new", "annotations": default}, "provisioner": "trainshed.dev/hostdir"}
    await world.client.create(STORAGECLASSES, later)
    claim = await world.until("Bound", lambda: bound(world))
    assert claim["spec"]["storageClassName"] == "new"


async def test_wait_for_first_consumer(world: World) -> None:
    lazy = {
        "metadata": {"name": "lazy"},
        "provisioner": "trainshed.dev/hostdir",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await world.client.create(STORAGECLASSES, lazy)
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="lazy"))
    await world.until("an event", lambda: "WaitForFirstConsumer" in reasons(world, "claim"))
    assert not world.all(PERSISTENTVOLUMES)
    await world.client.create(PODS, make_user("user", "claim"), namespace="default")
    await world.until("it runs", lambda: is_ready(world.stored(PODS, "user") or {}))


async def test_a_claim_of_a_lazy_class_is_bound_when_a_pod_uses_it(world: World) -> None:
    """As recorded with kube-controller-manager 1.33, where the volume is there already."""
    lazy = {
        "metadata": {"name": "manual"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await world.client.create(STORAGECLASSES, lazy)
    await world.client.create(PERSISTENTVOLUMES, make_volume())
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="manual"))
    await world.until("an event", lambda: "WaitForFirstConsumer" in reasons(world, "claim"))
    await world.settle()
    assert not bound(world)
    await world.client.create(PODS, make_user("user", "claim"), namespace="default")
    await world.until("Bound", lambda: bound(world))
    volume = await world.client.get(PERSISTENTVOLUMES, "pv")
    assert volume["status"]["phase"] == "Bound" and volume["status"]["lastPhaseTransitionTime"]


async def test_a_claim_of_another_provisioner_names_it(world: World) -> None:
    theirs = {"metadata": {"name": "theirs"}, "provisioner": "example.com/disks"}
    await world.client.create(STORAGECLASSES, theirs)
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="theirs"))
    await world.until("an event", lambda: "ExternalProvisioning" in reasons(world, "claim"))
    claim = await world.client.get(PERSISTENTVOLUMECLAIMS, "claim", "default")
    annotations = claim["metadata"]["annotations"]
    for name in ("volume.kubernetes.io", "volume.beta.kubernetes.io"):
        assert annotations[f"{name}/storage-provisioner"] == "example.com/disks"


async def test_a_bound_claim_grows(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    await world.until("Bound", lambda: bound(world))
    patch = {"spec": {"resources": {"requests": {"storage": "7Gi"}}}}
    await world.client.patch(PERSISTENTVOLUMECLAIMS, "claim", "default", patch)

    def size() -> bool:
        return (bound(world) or {"status": {}})["status"].get("capacity") == {"storage": "7Gi"}

    await world.until("7Gi", size)
    await world.until("events", lambda: {"Resizing", "VolumeResizeSuccessful"} <= reasons(world, "claim"))
    status = (bound(world) or {})["status"]
    assert status["allocatedResources"] == {"storage": "7Gi"}
    assert not status.get("conditions") and not status.get("allocatedResourceStatuses")
    less = {"spec": {"resources": {"requests": {"storage": "6Gi"}}}}
    with pytest.raises(ApiError, match="field can not be less than status") as refused:
        await world.client.patch(PERSISTENTVOLUMECLAIMS, "claim", "default", less)
    assert refused.value.code == 422


async def test_a_claim_of_a_class_without_expansion_does_not_grow(world: World) -> None:
    fixed = {"metadata": {"name": "fixed"}, "provisioner": "trainshed.dev/hostdir"}
    await world.client.create(STORAGECLASSES, fixed)
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim(storageClassName="fixed"))
    await world.until("Bound", lambda: bound(world))
    patch = {"spec": {"resources": {"requests": {"storage": "7Gi"}}}}
    with pytest.raises(ApiError) as refused:
        await world.client.patch(PERSISTENTVOLUMECLAIMS, "claim", "default", patch)
    assert (refused.value.code, refused.value.message) == (
        403,
        'persistentvolumeclaims "claim" is forbidden: only dynamically provisioned pvc can be resized and the '
        "storageclass that provisions the pvc must support resize",
    )


async def test_what_cannot_be_provisioned_says_so(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim("block", volumeMode="Block"))
    selector = {"matchLabels": {"name": "none"}}
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim("chosen", selector=selector))
    for name in ("block", "chosen"):
        await world.until("an event", lambda n=name: "ProvisioningFailed" in reasons(world, n))
    await world.settle()
    assert not world.all(PERSISTENTVOLUMES)


async def test_binding_survives_a_crash_at_every_write(world: World) -> None:
    """Controllers are killed after each write that they make until the claim is bound."""
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim())
    for _ in range(12):
        if bound(world):
            break
        revision = world.store.revision
        await world.until("a write", lambda r=revision: world.store.revision > r)
        await world.stop()
        await world.start()
    await world.until("Bound", lambda: bound(world))
    await world.settle()
    (volume,) = world.all(PERSISTENTVOLUMES)
    assert volume["status"]["phase"] == "Bound" and len(list(world.volumes.iterdir())) == 1


async def test_a_pod_brings_its_claim_along_and_takes_it_away(world: World) -> None:
    template = {"metadata": {"labels": {"of": "me"}}, "spec": make_claim()["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await world.client.create(PODS, make_pod("train", volumes=volumes))
    await world.until("the claim is made and bound", lambda: bound(world, "train-scratch"))
    claim = world.stored(PERSISTENTVOLUMECLAIMS, "train-scratch")
    assert claim is not None and claim["metadata"]["labels"] == {"of": "me"}
    await world.client.delete(PODS, "train", "default")
    gone = lambda: world.stored(PERSISTENTVOLUMECLAIMS, "train-scratch") is None  # noqa: E731
    await world.until("the claim goes with its pod", gone)


async def test_a_claim_of_somebody_else_is_not_taken_for_the_pods(world: World) -> None:
    await world.client.create(PERSISTENTVOLUMECLAIMS, make_claim("train-scratch"))
    template = {"spec": make_claim()["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await world.client.create(PODS, make_pod("train", volumes=volumes))

    async def told() -> bool:
        events = (await world.client.list(EVENTS, "default")).items
        return any("was not created for the pod" in event.get("message", "") for event in events)

    async with asyncio.timeout(10):
        while not await told():
            await asyncio.sleep(0.05)
