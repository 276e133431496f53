"""Jobs and pods of any kind of `kubeflow.org/v1`, called `train` in the namespace `ns`, and plans for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tests.fakes.plans import written
from tests.unit.jobs_builders import NOW, PREFIX, UID
from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time
from trainshed.testing import builders

States: TypeAlias = Mapping[tuple[str, int], str | int]
"""By replica type and index: the phase of a pod, or the exit code with which its training container ended."""


def make_replica_of(
    kind: JobKind, count: int | None = 1, policy: str | None = None, **container: Any
) -> Object:
    """Return a replica spec with the training container; None leaves a field out."""
    pod = builders.make_pod_spec(**{"name": kind.container_name, "image": "i:1", **container})
    return builders.make_replica(count, pod, restart_policy=policy)


def make_job_of(
    kind: JobKind,
    counts: Mapping[str, int | None],
    policy: str | None = None,
    *,
    status: Object | None = None,
    spec: Object | None = None,
    **run_policy: Any,
) -> Object:
    """Return a stored job with so many replicas of each type, and text in whatever else the kind requires."""
    others = [f for f in msgspec.structs.fields(kind.spec) if f.required]
    said = {f.encode_name: "x" for f in others if f.encode_name != kind.replica_specs_field}
    replicas = {type_: make_replica_of(kind, count, policy) for type_, count in counts.items()}
    return builders.make_job(
        "train",
        kind=kind.name,
        metadata={"namespace": "ns", "uid": UID},
        spec={kind.replica_specs_field: replicas, "runPolicy": run_policy, **said, **(spec or {})},
        status=status,
    )


def make_pod_of(kind: JobKind, type_: str, index: int, state: str | int) -> Object:
    """Return the pod of one replica in a state."""
    slug = type_.lower()
    status: Object = {"phase": state}
    if isinstance(state, int):
        ended = {"exitCode": state, "finishedAt": format_time(NOW - 1)}
        container = {"name": kind.container_name, "restartCount": 0, "state": {"terminated": ended}}
        status = {"phase": "Failed" if state else "Succeeded", "containerStatuses": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{slug}-{index}" if kind.replica_type(type_).indexed else f"train-{slug}",
            "namespace": "ns",
            "uid": f"pod-{slug}-{index}",
            "labels": {
                PREFIX + "operator-name": kind.controller_name,
                PREFIX + "job-name": "train",
                PREFIX + "replica-type": slug,
                PREFIX + "replica-index": str(index),
            },
            "ownerReferences": [{"kind": kind.name, "name": "train", "uid": UID, "controller": True}],
        },
        "spec": {"containers": [{"name": kind.container_name}]},
        "status": status,
    }


def plan_of(kind: JobKind, job: Object, states: States | None = None) -> Plan:
    """Return the plan for a job whose pods are in these states."""
    pods = [make_pod_of(kind, type_, index, state) for (type_, index), state in (states or {}).items()]
    return written(decide(Observed(job=job, owned={PODS: pods}, now=NOW)))


def told(plan: Plan) -> dict[str, str]:
    """Return the message of each condition that is True, by its type."""
    assert plan.status is not None, "the plan writes no status"
    return {c["type"]: c["message"] for c in plan.status["conditions"] if c["status"] == "True"}
