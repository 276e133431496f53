"""The operator runs a kind that it does not know, on the real API server, with the permissions that are derived.

The kind and the gang phase are those of `tests/fakes/launcher.py`: CRD, ClusterRole, watches and look-ups follow from
what they declare.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.test_operator import World, world
from tests.fakes.launcher import LAUNCHJOB, PODGROUPS, Gang, make_launchjob, registered
from trainshed.api.registry import KINDS
from trainshed.client.informer import Informer
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.plan import Update
from trainshed.kube.meta.resources import CLUSTERROLES, CONFIGMAPS, CRDS, PODS, ROLES, SERVICES
from trainshed.operator import objects
from trainshed.operator.install import embedded_options
from trainshed.operator.manager import Operator

__all__ = ["world"]


@pytest.fixture
def registry() -> Any:
    with registered(Gang()):
        yield


@pytest.fixture
async def launched(registry: None, world: World) -> AsyncIterator[World]:
    """Start an operator of all kinds, and create a job."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": PODGROUPS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": PODGROUPS.kind, "plural": PODGROUPS.plural}
    spec = {"group": PODGROUPS.group, "names": names, "scope": "Namespaced", "versions": [version]}
    await world.admin.create(CRDS, {"metadata": {"name": PODGROUPS.group_resource}, "spec": spec})
    (own,) = [each for each in objects.crds() if name_of(each) == LAUNCHJOB.resource.group_resource]
    await world.admin.create(CRDS, own)
    # The rights that come with the package were derived without this kind.
    role = objects.cluster_role(embedded_options())
    await world.admin.apply(CLUSTERROLES, role, field_manager="install")
    job = make_launchjob()
    del job["metadata"]["uid"]
    await world.admin.create(LAUNCHJOB.resource, job)
    world.start()
    yield world


async def test_it_runs_from_gang_to_end(launched: World) -> None:
    world = launched
    await world.watch(LAUNCHJOB.resource)
    groups = Informer(world.admin, PODGROUPS)
    await world.mirror(groups)
    await world.until("a PodGroup", lambda: len(groups.items()) == 1)
    assert await world.names(PODS) == [], "not before the gang is placed"
    placed = {"status": {"phase": "Running"}}
    await world.admin.patch(PODGROUPS, "job", "ns", placed, subresource="status")
    await world.until("pods", lambda: len(world.kubelet.pods.items()) == 3)
    assert await world.names(SERVICES) == []
    assert "job-launcher" in await world.names(ROLES)
    await world.until("Running", lambda: world.is_true("Running"))
    files = Informer(world.admin, CONFIGMAPS, namespace="ns")
    await world.mirror(files)

    def hosts() -> Object:
        return (files.get("ns", "job-config") or {}).get("data") or {}

    await world.until("all hosts", lambda: hosts() == {"hosts": "job-worker-0\njob-worker-1\n"})
    await world.kubelet.report("job-launcher", "Succeeded")
    await world.until("Succeeded", lambda: world.is_true("Succeeded"))
    await world.until("no PodGroup", lambda: not groups.items())
    assert await world.names(ROLES) == ["job-launcher"], "stays with the job"


async def test_an_update_lands_only_on_what_was_seen(launched: World) -> None:
    world = launched
    await world.watch(LAUNCHJOB.resource)
    await world.until("Created", lambda: world.is_true("Created"))
    seen = await world.admin.create(
        CONFIGMAPS, {"metadata": {"name": "mine", "namespace": "ns"}, "data": {"old": "1"}}
    )
    changed = Update(resource=CONFIGMAPS, object={**seen, "data": {"a": "1"}})
    operator = Operator(world.admin, OperatorOptions(), kinds=tuple(KINDS))
    executor = operator.reconcilers["launchjob-controller"].executor
    await executor.execute(world.job, Plan(actions=(changed,)))
    assert (await world.admin.get(CONFIGMAPS, "mine", "ns"))["data"] == {"a": "1"}, "replaced, not merged"
    with pytest.raises(ApiError, match="the object has been modified"):
        await executor.execute(world.job, Plan(actions=(changed,)))
    await operator.close()
