"""A Job's plan in the making: pods to make, to end and to let go, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads.job_pods import (
    TRACKING,
    is_tracked,
    new_pod,
)
from trainshed.cluster.controllers.workloads.podactions import creation, deletion
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import without_finalizer
from trainshed.kube.meta.plan import Event, Patch, Plan
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time


class Draft(msgspec.Struct):
    """A plan in the making."""

    status: Object
    untrack: list[Object] = msgspec.field(default_factory=list)
    """Pods that lose the tracking finalizer: counted, or not to be counted."""
    delete: list[Object] = msgspec.field(default_factory=list)
    create: list[tuple[int | None, Mapping[str, str]]] = msgspec.field(default_factory=list)
    """One entry per new pod: its completion index, None for a NonIndexed job, and its annotations."""
    events: list[Event] = msgspec.field(default_factory=list)
    requeue_after: float | None = None

    def plan(self, job: Object) -> Plan:
        """Return the plan: pods are let go, then ended, then made."""
        return Plan(
            actions=(
                *untracking(self.untrack),
                *(deletion(pod) for pod in self.delete),
                *(creation(new_pod(job, index, notes)) for index, notes in self.create),
            ),
            status=self.status,
            events=tuple(self.events),
            requeue_after=self.requeue_after,
        )

    def drop(self, pods: Sequence[Object]) -> None:
        """End pods that are not needed; that is no failure of theirs, so they are not counted."""
        self.untrack += [pod for pod in pods if is_tracked(pod)]
        self.delete += pods

    def set_condition(self, name: str, true: bool, reason: str, message: str, now: float) -> bool:
        """Add or change a condition; return whether that changed anything."""
        status = "True" if true else "False"
        conditions: list[Object] = list(self.status.get("conditions") or ())
        for condition in conditions:
            if condition["type"] == name and condition["status"] == status:
                return False
        stamp = format_time(now)
        new: dict[str, Any] = {
            "type": name,
            "status": status,
            "lastProbeTime": stamp,
            "lastTransitionTime": stamp,
            "reason": reason,
            "message": message,
        }
        self.status["conditions"] = [*(c for c in conditions if c["type"] != name), new]
        return True


def untracking(pods: Iterable[Object]) -> tuple[Patch, ...]:
    """Return the patches by which those of the pods that are tracked lose the finalizer."""
    return tuple(
        Patch(resource=PODS, object=pod, patch=without_finalizer(pod, TRACKING))
        for pod in pods
        if is_tracked(pod)
    )
