"""ReplicaSets, Deployments and the other kinds of apps/v1, and autoscalers, on the real API server, with a kubelet that
plays pods."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_world import World, cluster, conditions
from trainshed.cluster.controllers.autoscaling.metrics import Use
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_active, is_ready
from trainshed.kube.meta.resources import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    EVENTS,
    HORIZONTALPODAUTOSCALERS,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with cluster(tmp_path) as started:
        yield started


def make_deployment(replicas: int = 3, *, image: str = "web:1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
            **spec,
        },
    }


def images(world: World) -> list[str]:
    return sorted(p["spec"]["containers"][0]["image"] for p in world.all(PODS) if is_active(p))


def deployed(world: World) -> bool:
    found = world.stored(DEPLOYMENTS, "web") or {}
    status = found.get("status") or {}
    return (
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == found["spec"]["replicas"]
        and status.get("availableReplicas", 0) == found["spec"]["replicas"] == status.get("replicas", 0)
    )


async def test_a_deployment_rolls_out_and_back_without_losing_pods(world: World) -> None:
    await world.client.create(DEPLOYMENTS, make_deployment(4))
    await world.until("four pods", lambda: deployed(world))
    assert images(world) == ["web:1"] * 4
    least = 4
    most = 4

    def watch(kind: str, old: Object | None, new: Object) -> None:
        nonlocal least, most
        pods = [pod for pod in world.kubelet.pods.items() if is_active(pod)]
        least = min(least, sum(map(is_ready, pods)))
        most = max(most, len(pods))

    world.kubelet.pods.add_handler(watch)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    await world.client.patch(DEPLOYMENTS, "web", "default", patch)
    await world.until("web:2 everywhere", lambda: deployed(world) and images(world) == ["web:2"] * 4)
    assert least >= 3 and most <= 5, "maxUnavailable and maxSurge are 25 %"
    sets = world.all(REPLICASETS)
    revisions = {rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for rs in sets}
    assert revisions == {"1", "2"}

    patch["spec"]["template"]["spec"]["containers"][0]["image"] = "web:1"
    await world.client.patch(DEPLOYMENTS, "web", "default", patch)
    await world.until("web:1 again", lambda: deployed(world) and images(world) == ["web:1"] * 4)
    assert len(world.all(REPLICASETS)) == 2, "the first set is used again"
    found = world.stored(DEPLOYMENTS, "web")
    assert found is not None
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert conditions(found) == {
        "Available": "MinimumReplicasAvailable",
        "Progressing": "NewReplicaSetAvailable",
    }
    await world.settle()


async def test_recreate_waits_for_the_last_old_pod(world: World) -> None:
    await world.client.create(DEPLOYMENTS, make_deployment(2, strategy={"type": "Recreate"}))
    await world.until("two pods", lambda: deployed(world))
    world.kubelet.lets_go = lambda pod: False
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    await world.client.patch(DEPLOYMENTS, "web", "default", patch)
    await world.until(
        "old pods ending", lambda: all(p["metadata"].get("deletionTimestamp") for p in world.all(PODS))
    )
    await world.settle()
    assert len(world.all(PODS)) == 2, "nothing new while the old ones end"
    world.kubelet.lets_go = lambda pod: True
    world.kubelet.release()
    await world.until("two new pods", lambda: deployed(world) and images(world) == ["web:2"] * 2)


async def test_scaling_while_controllers_restart_makes_no_pod_twice(world: World) -> None:
    await world.client.create(DEPLOYMENTS, make_deployment(6))
    for count in range(1, 6):
        await world.until(f"{count} pods", lambda c=count: len(world.all(PODS)) >= c)
        await world.stop()
        await world.start()
    await world.until("six pods", lambda: deployed(world))
    await world.settle()
    assert len(world.all(PODS)) == 6
    assert len(world.kubelet.started) == len(set(world.kubelet.started)) == 6


async def test_old_mirrors_make_no_pod_twice(world: World) -> None:
    await world.stop()
    world.lag = {"pods": 0.4, "replicasets": 0.1}
    await world.start()
    await world.client.create(DEPLOYMENTS, make_deployment(4))
    await world.until("four pods", lambda: deployed(world))
    await world.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 1}})
    await world.until("one pod", lambda: deployed(world))
    await world.settle(quiet=1.0)
    assert len(world.kubelet.started) == 4 and len(world.all(PODS)) == 1


async def test_orphaned_pods_are_adopted_by_the_same_deployment(world: World) -> None:
    await world.client.create(DEPLOYMENTS, make_deployment(2))
    await world.until("two pods", lambda: deployed(world))
    before = {pod["metadata"]["uid"] for pod in world.all(PODS)}
    await world.client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Orphan")
    await world.until("gone", lambda: world.stored(DEPLOYMENTS, "web") is None)
    (replica_set,) = world.all(REPLICASETS)
    assert not replica_set["metadata"].get("ownerReferences")
    name = replica_set["metadata"]["name"]
    await world.client.delete(REPLICASETS, name, "default", propagation_policy="Orphan")
    await world.until("gone", lambda: world.stored(REPLICASETS, name) is None)
    assert not any(pod["metadata"].get("ownerReferences") for pod in world.all(PODS))
    await world.client.create(DEPLOYMENTS, make_deployment(2))
    await world.until("deployed", lambda: deployed(world))
    await world.settle()
    # The new set has the same name and hash, so its selector finds them.
    assert {pod["metadata"]["uid"] for pod in world.all(PODS)} == before


async def test_a_relabelled_pod_is_let_go_and_replaced(world: World) -> None:
    await world.client.create(DEPLOYMENTS, make_deployment(1))
    await world.until("a pod", lambda: deployed(world))
    (pod,) = world.all(PODS)
    name = pod["metadata"]["name"]
    await world.client.patch(PODS, name, "default", {"metadata": {"labels": {"app": "debug"}}})
    await world.until("another pod", lambda: len(world.all(PODS)) == 2 and deployed(world))
    assert not (world.stored(PODS, name) or {})["metadata"].get("ownerReferences")


async def test_a_refused_template_is_reported_and_retried_slowly(world: World) -> None:
    deployment = make_deployment(5)
    deployment["spec"]["template"]["spec"]["serviceAccountName"] = "missing"
    await world.client.create(DEPLOYMENTS, deployment)

    def failed() -> list[Object]:
        return [e for e in world.all(EVENTS) if e["reason"] == "FailedCreate"]

    (event,) = await world.until("an event", failed)
    assert 'serviceaccount "missing" not found' in event["message"]
    assert not world.all(PODS)


async def test_progress_deadline_is_told(world: World) -> None:
    world.kubelet.ready = lambda pod: False
    await world.client.create(DEPLOYMENTS, make_deployment(1, progressDeadlineSeconds=1))

    def overdue() -> bool:
        found = world.stored(DEPLOYMENTS, "web") or {}
        listed = (found.get("status") or {}).get("conditions") or ()
        return any(c["reason"] == "ProgressDeadlineExceeded" and c["status"] == "False" for c in listed)

    await world.until("ProgressDeadlineExceeded", overdue)


def make_stateful_set(replicas: int = 3, **spec: Any) -> Object:
    deployment = make_deployment(replicas)
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    own = {"serviceName": "web", "volumeClaimTemplates": [claim], **spec}
    return {**deployment, "kind": "StatefulSet", "spec": {**deployment["spec"], **own}}


async def test_a_stateful_set_keeps_names_claims_and_order_through_a_restart_of_the_controllers(
    world: World,
) -> None:
    await world.client.create(STATEFULSETS, make_stateful_set())

    def names() -> list[str]:
        return sorted(p["metadata"]["name"] for p in world.all(PODS) if is_ready(p))

    await world.until("three ready pods", lambda: names() == ["web-0", "web-1", "web-2"])
    assert world.kubelet.started == ["web-0", "web-1", "web-2"], "in order"
    await world.until(
        "bound claims",
        lambda: [c["status"].get("phase") for c in world.all(PERSISTENTVOLUMECLAIMS)] == ["Bound"] * 3,
    )
    await world.stop()
    template = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
    await world.client.patch(STATEFULSETS, "web", "default", {"spec": {"template": template}})
    await world.start()
    await world.until("every pod new", lambda: images(world) == ["web:2"] * 3 and len(names()) == 3)
    assert world.kubelet.started[3:] == ["web-2", "web-1", "web-0"], "the last first"

    def status() -> Object:
        return (world.stored(STATEFULSETS, "web") or {})["status"]

    await world.until("the status", lambda: status().get("currentRevision") == status()["updateRevision"])
    assert len(world.all(CONTROLLERREVISIONS)) == 2
    await world.client.patch(STATEFULSETS, "web", "default", {"spec": {"replicas": 0}})
    await world.until("no pods", lambda: not world.all(PODS))
    assert len(world.all(PERSISTENTVOLUMECLAIMS)) == 3, "claims outlive their pods"


async def test_a_daemon_set_follows_the_nodes_and_rolls_out(world: World) -> None:
    body = make_deployment()
    daemons = {**body, "kind": "DaemonSet"}
    del daemons["spec"]["replicas"]
    await world.client.create(DAEMONSETS, daemons)

    def where(image: str) -> list[str]:
        return sorted(
            p["spec"]["nodeName"]
            for p in world.all(PODS)
            if p["spec"].get("nodeName") and is_ready(p) and p["spec"]["containers"][0]["image"] == image
        )

    await world.until("a pod on the node", lambda: where("web:1") == ["laptop"])
    await world.add_node("second")
    await world.until("a pod on the new node", lambda: where("web:1") == ["laptop", "second"])
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
    await world.client.patch(DAEMONSETS, "web", "default", patch)
    await world.until("web:2 on both", lambda: where("web:2") == ["laptop", "second"])

    def counted() -> bool:
        status = (world.stored(DAEMONSETS, "web") or {})["status"]
        return bool(status.get("updatedNumberScheduled") == status.get("numberAvailable") == 2)

    await world.until("the status", counted)
    assert len(world.all(CONTROLLERREVISIONS)) == 2
    await world.settle()


async def test_a_replication_controller_keeps_its_pods(world: World) -> None:
    template = make_deployment()["spec"]["template"]
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "rc", "namespace": "default"},
        "spec": {"replicas": 2, "template": template},
    }
    await world.client.create(REPLICATIONCONTROLLERS, body)

    def ready() -> int:
        return int((world.stored(REPLICATIONCONTROLLERS, "rc") or {})["status"].get("readyReplicas") or 0)

    await world.until("two pods", lambda: ready() == 2)
    await world.client.patch(REPLICATIONCONTROLLERS, "rc", "default", {"spec": {"replicas": 1}})
    await world.until("one pod", lambda: ready() == 1 and len(world.all(PODS)) == 1)
    (left,) = world.all(PODS)
    assert left["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"


async def test_an_autoscaler_follows_what_pods_use(world: World) -> None:
    deployment = make_deployment(1)
    await world.client.create(DEPLOYMENTS, deployment)
    await world.until("one pod", lambda: deployed(world))
    (pod,) = world.all(PODS)
    world.uses[pod["metadata"]["name"]] = Use({"web": {"memory": Decimal(250)}}, time.time(), 1.0)
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "80"}}
    metrics = [{"type": "Resource", "resource": metric}]
    spec = {"maxReplicas": 5, "scaleTargetRef": reference, "metrics": metrics}
    held = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    await world.client.create(HORIZONTALPODAUTOSCALERS, {**held, "spec": spec}, namespace="default")
    await world.until(
        "four pods: one uses 250 where 80 is right",
        lambda: deployed(world) and len(world.all(PODS)) == 4,
    )
    found = world.stored(HORIZONTALPODAUTOSCALERS, "web")
    assert found is not None
    assert conditions(found)["AbleToScale"] == "SucceededRescale"
    patch = {"spec": {"maxReplicas": 2}}
    await world.client.patch(HORIZONTALPODAUTOSCALERS, "web", "default", patch)
    await world.until("an edit is acted on at once", lambda: deployed(world) and len(images(world)) == 2)
    await world.until(
        "an event of it", lambda: "SuccessfulRescale" in {event["reason"] for event in world.all(EVENTS)}
    )
