"""Builders of jobs, pods and services: a test names only what it is about."""

from __future__ import annotations

from typing import Any

from tests.fakes.plans import written
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.job import Job
from trainshed.jobs.v1.read import read as read_as
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Apply, Create, Delete
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS, PODS, SERVICES
from trainshed.kube.meta.times import format_time
from trainshed.testing import builders

NOW = 1_700_000_000.0
"""The time in tests, in seconds since the epoch: 2023-11-14T22:13:20Z."""

UID = "job-uid"
PREFIX = "training.kubeflow.org/"


def make_template(**container: Any) -> Object:
    """Return a pod template with one container called pytorch."""
    return {"spec": builders.make_pod_spec(name="pytorch", image="torch:2", **container)}


def make_replica(replicas: int | None = 1, policy: str | None = None, **more: Any) -> Object:
    """Return a replica spec; None leaves a field out."""
    return builders.make_replica(replicas, make_template()["spec"], restart_policy=policy, **more)


def make_job(
    *,
    master: int | None = None,
    workers: int | None = None,
    policy: str | None = None,
    name: str = "train",
    status: Object | None = None,
    spec: Object | None = None,
    replicas: Object | None = None,
    **run_policy: Any,
) -> Object:
    """Return a stored PyTorchJob. `master`/`workers` are counts, `policy` the restart policy of all."""
    specs = [None if count is None else make_replica(count, policy) for count in (master, workers)]
    fields = {**({} if replicas is None else {"pytorchReplicaSpecs": replicas}), **(spec or {})}
    stored = {"namespace": "ns", "uid": UID}
    return builders.make_job(name, *specs, metadata=stored, spec=fields, status=status, **run_policy)


def read(document: Object) -> Job:
    """Return the job as policies see it."""
    return read_as(PYTORCHJOB, document)[0]


def make_child(kind: str, type_: str, index: int | str, *, name: str = "train", **metadata: Any) -> Object:
    """Return an object with the labels and owner of one replica."""
    slug = type_.lower()
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": f"{name}-{slug}-{index}",
            "namespace": "ns",
            "uid": f"{kind.lower()}-{slug}-{index}",
            "labels": {
                PREFIX + "operator-name": PYTORCHJOB.controller_name,
                PREFIX + "job-name": name,
                PREFIX + "replica-type": slug,
                PREFIX + "replica-index": str(index),
            },
            "ownerReferences": [{"kind": "PyTorchJob", "name": name, "uid": UID, "controller": True}],
            **metadata,
        },
    }


def make_pod(
    type_: str,
    index: int | str,
    phase: str = "Pending",
    *,
    exit_code: int | None = None,
    restarts: int | None = None,
    terminating: bool = False,
    **metadata: Any,
) -> Object:
    """Return a pod of the job `train`; `exit_code` and `restarts` are those of its main container."""
    pod = make_child("Pod", type_, index, **metadata)
    pod["status"] = {"phase": phase}
    if exit_code is not None or restarts is not None:
        container: Object = {"name": "pytorch", "restartCount": restarts or 0}
        if exit_code is not None:
            container["state"] = {"terminated": {"exitCode": exit_code, "finishedAt": format_time(NOW - 1)}}
        pod["status"]["containerStatuses"] = [container]
    if terminating:
        pod["metadata"]["deletionTimestamp"] = format_time(NOW)
    return pod


def make_service(type_: str, index: int | str, **metadata: Any) -> Object:
    """Return the service of one replica of the job `train`."""
    return make_child("Service", type_, index, **metadata)


def make_condition(type_: str, status: str = "True", reason: str | None = None, at: float = NOW) -> Object:
    """Return a stored condition with the usual reason."""
    return {
        "type": type_,
        "status": status,
        "reason": reason or f"PyTorchJob{type_}",
        "message": "",
        "lastUpdateTime": format_time(at),
        "lastTransitionTime": format_time(at),
    }


def plan_for(
    job: Object,
    pods: list[Object] | None = None,
    *,
    services: list[Object] | None = None,
    hpa: Object | None = None,
    now: float = NOW,
    options: OperatorOptions | None = None,
) -> Plan:
    """Return the plan for a job; `services` default to one for each pod."""
    pods = pods or []
    if services is None:
        services = [make_service(_label(p, "replica-type"), _label(p, "replica-index")) for p in pods]
    owned = {PODS: pods, SERVICES: services, HORIZONTALPODAUTOSCALERS: [] if hpa is None else [hpa]}
    return written(decide(Observed(job=job, owned=owned, now=now, options=options or OperatorOptions())))


def made(plan: Plan, kind: str) -> list[Object]:
    """Return the objects of a kind that the plan creates or applies, in order."""
    return [a.object for a in plan.actions if isinstance(a, Create | Apply) and a.resource.kind == kind]


def created(plan: Plan, kind: str = "Pod") -> list[str]:
    """Return the names of the objects of a kind that the plan creates, in order."""
    return [obj["metadata"]["name"] for obj in made(plan, kind)]


def deleted(plan: Plan, kind: str) -> list[str]:
    """Return the names of the objects of a kind that the plan deletes, in order."""
    return [a.name for a in plan.actions if isinstance(a, Delete) and a.resource.kind == kind]


def created_pods(plan: Plan) -> dict[str, Object]:
    """Return the pods that the plan creates, by name."""
    return {pod["metadata"]["name"]: pod for pod in made(plan, "Pod")}


def kinds_of(plan: Plan) -> list[str]:
    """Return verb and kind of every action in order, e.g. `CreatePod`."""
    return [type(action).__name__ + action.resource.kind for action in plan.actions]


def env_of(pod: Object, container: int = 0) -> list[tuple[str, str]]:
    """Return the variables of a container in order; no value reads as empty."""
    return [(e["name"], e.get("value", "")) for e in pod["spec"]["containers"][container]["env"]]


def conditions_of(plan: Plan) -> list[tuple[str, str, str]]:
    """Return type, status and reason of the conditions that the plan writes."""
    assert plan.status is not None, "the plan writes no status"
    return [(c["type"], c["status"], c["reason"]) for c in plan.status.get("conditions", [])]


def reasons(plan: Plan) -> list[str]:
    """Return the reasons of the plan's own events."""
    return [event.reason for event in plan.events]


def _label(obj: Object, key: str) -> str:
    return str(obj["metadata"]["labels"][PREFIX + key])
