"""Volcano: PodGroups with a queue and a priority. Pods are made once the group is let into its queue."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.api.v1.runpolicy import SchedulingPolicy
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import PodPatch, Seen
from trainshed.jobs.v1.gang.gang import Gang, is_gang, owns
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, name_of, objects, section
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.podgroups import (
    DEFAULT_QUEUE,
    VOLCANO_GROUP_ANNOTATION,
    VOLCANO_PODGROUPS,
    VOLCANO_SCHEDULER,
    VOLCANO_TASK_ANNOTATION,
)

_UNSCHEDULABLE = "Unschedulable"


class Volcano(Gang):
    """A job as a gang of Volcano's."""

    resource = VOLCANO_PODGROUPS
    owns = (owns(VOLCANO_PODGROUPS),)

    def is_enabled(self, options: OperatorOptions) -> bool:
        """Return whether the operator was told of Volcano, in any case of its name."""
        return options.gang_scheduler.lower() == VOLCANO_SCHEDULER

    def scheduler_name(self, options: OperatorOptions) -> str:
        """Return Volcano's own name."""
        return VOLCANO_SCHEDULER

    def spec(self, job: Job, policy: SchedulingPolicy, live: Object) -> Object:
        """Return queue and priority. A group stays in the queue that it is in: an administrator may have moved it."""
        out: Object = {"queue": section(live, "spec").get("queue") or policy.queue or DEFAULT_QUEUE}
        if policy.priority_class:
            out["priorityClassName"] = policy.priority_class
        return out

    def marks(self, job: Job, replica: Replica) -> PodPatch:
        """Return the annotations that Volcano reads."""
        return PodPatch(
            annotations={VOLCANO_GROUP_ANNOTATION: job.name, VOLCANO_TASK_ANNOTATION: replica.slug}
        )

    def holds(self, job: Job, seen: Seen, options: OperatorOptions) -> bool:
        """Return whether the group still waits to be let into its queue."""
        return is_gang(job, options) and _is_outside(self.live(job, seen))

    def events(self, job: Job, seen: Seen) -> Iterable[Event]:
        """Yield why the group waits: while there are no pods, nothing else tells."""
        group = self.live(job, seen)
        for condition in objects(section(group, "status"), "conditions"):
            why = condition.get("message")
            if _is_outside(group) and condition.get("type") == _UNSCHEDULABLE and why:
                yield Event("Warning", c.POD_GROUP_UNSCHEDULABLE, f"PodGroup {name_of(group)} waits: {why}")


def _is_outside(group: Object) -> bool:
    return section(group, "status").get("phase") in (None, "", "Pending")
