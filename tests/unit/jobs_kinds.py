"""Builders of the jobs and pods of any kind: what varies per kind comes from its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.plans import written
from tests.unit.jobs_builders import NOW, PREFIX, UID
from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS, SERVICES
from trainshed.kube.meta.times import format_time


class Builder:
    """Builds jobs called `train` of one kind, and what stands in a cluster for them."""

    def __init__(self, kind: JobKind) -> None:
        self.kind = kind

    def replica(self, replicas: int | None = 1, policy: str | None = None, **container: Any) -> Object:
        """Return a replica spec; None leaves a field out, `container` are further fields of its container."""
        containers = [{"name": self.kind.container_name, "image": "i:1", **container}]
        spec: Object = {"template": {"spec": {"containers": containers}}}
        if replicas is not None:
            spec["replicas"] = replicas
        if policy is not None:
            spec["restartPolicy"] = policy
        return spec

    def job(
        self,
        replicas: Mapping[str, Any],
        policy: str | None = None,
        *,
        spec: Object | None = None,
        status: Object | None = None,
        **run_policy: Any,
    ) -> Object:
        """Return a stored job; `replicas` are counts or replica specs by type, `policy` the restart policy of all."""
        specs = {
            type_: value if isinstance(value, dict) else self.replica(value, policy)
            for type_, value in replicas.items()
        }
        job: Object = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "metadata": {"name": "train", "namespace": "ns", "uid": UID},
            "spec": {self.kind.replica_specs_field: specs, **(spec or {})},
        }
        if run_policy:
            job["spec"]["runPolicy"] = run_policy
        if status is not None:
            job["status"] = status
        return job

    def child(self, kind: str, type_: str, index: int) -> Object:
        """Return an object with the labels and owner of one replica."""
        slug = type_.lower()
        labels = {
            PREFIX + "operator-name": self.kind.controller_name,
            PREFIX + "job-name": "train",
            PREFIX + "replica-type": slug,
        }
        name = f"train-{slug}"
        if self.kind.replica_type(type_).indexed:
            labels[PREFIX + "replica-index"] = str(index)
            name += f"-{index}"
        owner = {"kind": self.kind.name, "name": "train", "uid": UID, "controller": True}
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": f"{kind}-{name}",
            "labels": labels,
            "ownerReferences": [owner],
        }
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}

    def pod(
        self,
        type_: str,
        index: int,
        phase: str = "Pending",
        *,
        exit_code: int | None = None,
        terminating: bool = False,
    ) -> Object:
        """Return a pod of the job; `exit_code` is that of its training container."""
        pod = {**self.child("Pod", type_, index), "status": {"phase": phase}}
        if exit_code is not None:
            ended = {"exitCode": exit_code, "finishedAt": format_time(NOW - 1)}
            status = {"name": self.kind.container_name, "restartCount": 0, "state": {"terminated": ended}}
            pod["status"] = {"phase": phase, "containerStatuses": [status]}
        if terminating:
            pod["metadata"]["deletionTimestamp"] = format_time(NOW)
        return pod

    def condition(self, type_: str, message: str = "", status: str = "True") -> Object:
        """Return a stored condition with the usual reason."""
        return {
            "type": type_,
            "status": status,
            "reason": self.kind.name + type_,
            "message": message,
            "lastUpdateTime": format_time(NOW),
            "lastTransitionTime": format_time(NOW),
        }

    def plan(
        self, job: Object, *pods: Object, now: float = NOW, options: OperatorOptions | None = None
    ) -> Plan:
        """Return the plan for a job with these pods, each of which has its service."""
        labels = [pod["metadata"]["labels"] for pod in pods]
        services = [
            self.child("Service", found[PREFIX + "replica-type"], int(found[PREFIX + "replica-index"]))
            for found in labels
            if PREFIX + "replica-index" in found
        ]
        owned = {PODS: list(pods), SERVICES: services}
        return written(decide(Observed(job=job, owned=owned, now=now, options=options or OperatorOptions())))


def conditions(plan: Plan) -> list[tuple[str, str, str]]:
    """Return type, status and message of the conditions that the plan writes."""
    assert plan.status is not None, "the plan writes no status"
    return [(c["type"], c["status"], c["message"]) for c in plan.status["conditions"]]


def told(plan: Plan) -> list[tuple[str, str, str]]:
    """Return type, reason and message of the plan's own events."""
    return [(event.type, event.reason, event.message) for event in plan.events]
