"""The operator runs an MPIJob on the real API server with the derived permissions: its Roles hand on `pods/exec`."""

from __future__ import annotations

from typing import Any

from tests.cluster.test_operator import World, world
from trainshed.api.v1.mpi import MPIJOB
from trainshed.client.informer import Informer
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import CONFIGMAPS, ROLEBINDINGS, ROLES, SERVICEACCOUNTS, SERVICES

__all__ = ["world"]


def make_mpijob(workers: int) -> Object:
    """Return the MPIJob `ns/job`."""
    template = {"spec": {"containers": [{"name": "mpi", "image": "i:1"}]}}
    specs: Any = {"Launcher": {"template": template}, "Worker": {"replicas": workers, "template": template}}
    return {
        "apiVersion": MPIJOB.api_version,
        "kind": MPIJOB.name,
        "metadata": {"name": "job", "namespace": "ns"},
        "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": specs},
    }


async def test_it_runs_scales_and_ends(world: World) -> None:
    await world.admin.create(MPIJOB.resource, make_mpijob(2))
    await world.watch(MPIJOB.resource)
    files, roles = (
        Informer(world.admin, CONFIGMAPS, namespace="ns"),
        Informer(world.admin, ROLES, namespace="ns"),
    )
    for informer in (files, roles):
        await world.mirror(informer)
    world.start()
    await world.until("Running", lambda: world.is_true("Running"))

    def data() -> Object:
        return (files.get("ns", "job-config") or {}).get("data") or {}

    await world.until("both workers", lambda: str(data().get("discover_hosts.sh")).count("echo") == 2)
    assert data()["hostfile"] == "job-worker-0 slots=2\njob-worker-1 slots=2\n"
    assert await world.names(SERVICES) == []
    for resource in (ROLES, ROLEBINDINGS):
        assert await world.names(resource) == ["job-launcher"]
    assert "job-launcher" in await world.names(SERVICEACCOUNTS)

    def allowed() -> list[str]:
        (role,) = roles.items()
        return list(role["rules"][-1]["resourceNames"])

    scaled = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}}
    await world.admin.patch(MPIJOB.resource, "job", "ns", scaled)
    await world.until("a third pod", lambda: len(allowed()) == 3)
    await world.until("four pods", lambda: len(world.kubelet.pods.items()) == 4)
    await world.admin.patch(
        MPIJOB.resource, "job", "ns", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}}
    )
    await world.until("two pods", lambda: len(world.kubelet.pods.items()) == 2)
    assert sorted(map(name_of, world.kubelet.pods.items())) == ["job-launcher", "job-worker-0"]
    assert not world.is_true("Failed")
    await world.kubelet.report("job-launcher", "Succeeded")
    await world.until("Succeeded", lambda: world.is_true("Succeeded"))
