"""scheduler-plugins: PodGroups of its coscheduling plugin. Pods are made at once, and wait for each other."""

from __future__ import annotations

from trainshed.api.v1.runpolicy import SchedulingPolicy
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import PodPatch
from trainshed.jobs.v1.gang.gang import Gang, owns
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import COSCHEDULING_GROUP_LABEL, COSCHEDULING_PODGROUPS, VOLCANO_SCHEDULER


class Coscheduling(Gang):
    """A job as a gang of scheduler-plugins, whose scheduler may have any name but Volcano's."""

    resource = COSCHEDULING_PODGROUPS
    owns = (owns(COSCHEDULING_PODGROUPS),)

    def is_enabled(self, options: OperatorOptions) -> bool:
        """Return whether the operator was told of a scheduler that is not Volcano."""
        return options.gang_scheduler.lower() not in ("", VOLCANO_SCHEDULER)

    def spec(self, job: Job, policy: SchedulingPolicy, live: Object) -> Object:
        """Return how long pods that fit wait for the others."""
        seconds = policy.schedule_timeout_seconds
        return {} if seconds is None else {"scheduleTimeoutSeconds": seconds}

    def marks(self, job: Job, replica: Replica) -> PodPatch:
        """Return the label that the plugin reads."""
        return PodPatch(labels={COSCHEDULING_GROUP_LABEL: job.name})
