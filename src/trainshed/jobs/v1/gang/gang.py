"""What every gang API asks of a job: one PodGroup of its name, how many pods it must hold, and what they need.

A job is a gang where the operator has a gang scheduler; if that is only for jobs that ask for it, where it has a
`schedulingPolicy`. A PodGroup goes when its job is over or suspended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from trainshed.api.v1.runpolicy import SchedulingPolicy
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.conditions import is_true
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.engine.owned import Owned, Owns
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Framework, Phase, PodPatch, Seen
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, controller_uid, name_of, objects, section, texts
from trainshed.kube.meta.plan import Event, Tells, Told
from trainshed.kube.meta.resources import PRIORITYCLASSES, Resource

_OURS = (
    ("spec", "minMember"),
    ("spec", "minResources"),
    ("spec", "priorityClassName"),
    ("spec", "scheduleTimeoutSeconds"),
)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""What kubectl remembers of the job: on another object it would be taken for what was applied there."""
_OVER = "Job has been terminated. Deleting PodGroup"
_OTHER_SCHEDULER = (
    "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
)


class _GroupTells(Tells, frozen=True):
    """Tells of the deletion alone, and why: upstream says nothing of a new PodGroup."""

    def created(self, name: str) -> Told:
        return Told(failed=super().created(name).failed)

    def deleted(self, name: str) -> Told:
        told = super().deleted(name)
        return Told((Event("Normal", c.JOB_TERMINATED, _OVER), *told.done), told.failed)


GROUP_EVENTS = _GroupTells("PodGroup", "PodGroup")


def owns(resource: Resource) -> Owns:
    """Return how PodGroups are owned: for as long as the job is to run."""
    return Owns(
        resource=resource,
        watched="",
        applied=True,
        tells=GROUP_EVENTS,
        while_suspended=False,
        after_finish=False,
    )


class Gang(Phase):
    """The part that the APIs share. One of them says its resource, its scheduler, its spec and its marks on pods."""

    resource: ClassVar[Resource]
    reads = (PRIORITYCLASSES,)

    def scheduler_name(self, options: OperatorOptions) -> str:
        """Return the scheduler that pods are given to where their template names none."""
        return options.gang_scheduler

    def spec(self, job: Job, policy: SchedulingPolicy, live: Object) -> Object:
        """Return what the API has beside `minMember` and `minResources`; `live` is the PodGroup that exists, or {}."""
        return {}

    def marks(self, job: Job, replica: Replica) -> PodPatch:
        """Return what tells a pod's group."""
        return PodPatch()

    def takes_part(self, job: Job, seen: Seen) -> bool:
        """Return whether the run has not begun, or all its pods are marked.

        One that began without a group, since the policy or the scheduler came later, ends without: of a group of all,
        a replaced pod would be the only member, and wait for ever.
        """
        return all(
            self._is_marked(job, slot.replica, pod) for slot in seen.children.slots for pod in slot.pods
        )

    def _is_marked(self, job: Job, replica: Replica, pod: Object) -> bool:
        marks, metadata = self.marks(job, replica), section(pod, "metadata")
        return all(
            wanted.items() <= section(metadata, field).items()
            for field, wanted in (("labels", marks.labels), ("annotations", marks.annotations))
        )

    def lookups(self, document: Object) -> tuple[tuple[Resource, str], ...]:
        """Ask for the priority classes of the templates, while the job runs: the most important pods count first."""
        conditions = objects(section(document, "status"), "conditions")
        if any(is_true(conditions, type_) for type_ in (c.SUCCEEDED, c.FAILED)):
            return ()
        specs = section(document, "spec", FRAMEWORKS[str(document["kind"])].kind.replica_specs_field)
        names = [section(specs, type_, "template", "spec").get("priorityClassName") for type_ in specs]
        return tuple(
            (PRIORITYCLASSES, name) for name in dict.fromkeys(names) if isinstance(name, str) and name
        )

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...]:
        """Return the PodGroup; one of a job that stopped being a gang stays as it is, for its waiting pods' sake."""
        live = self.live(job, seen)
        if not is_gang(job, options):
            return (Owned(resource=self.resource, object=live),) if live else ()
        policy = job.run_policy.scheduling_policy or SchedulingPolicy()
        members = job.total_replicas if policy.min_available is None else policy.min_available
        spec: Object = {"minMember": members}
        classes = seen.owned.get(PRIORITYCLASSES, ())
        if resources := policy.min_resources or least_resources(job, members, classes):
            spec["minResources"] = dict(resources)
        metadata: Object = {
            "name": job.name,
            "namespace": job.namespace,
            "ownerReferences": [job.owner_reference()],
        }
        annotations = texts(section(job.document, "metadata"), "annotations")
        if annotations := {key: text for key, text in annotations.items() if key != _APPLIED}:
            metadata["annotations"] = annotations
        group = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": metadata,
            "spec": {**spec, **self.spec(job, policy, live)},
        }
        taken = Event(
            "Warning",
            c.ERR_RESOURCE_EXISTS,
            f'Resource "{job.name}" of Kind "PodGroup" already exists and is not managed by {job.kind.name}',
        )
        return (Owned(resource=self.resource, object=group, taken=taken, whole=_OURS),)

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return the marks of the group, and the scheduler where the template names none."""
        if not is_gang(job, options):
            return PodPatch()
        marks = self.marks(job, replica)
        if not section(replica.template, "spec").get("schedulerName"):
            return PodPatch(
                labels=marks.labels,
                annotations=marks.annotations,
                scheduler_name=self.scheduler_name(options),
            )
        return marks

    def creation_events(self, job: Job, framework: Framework, options: OperatorOptions) -> tuple[Event, ...]:
        """Warn where any template names another scheduler: nobody then places the gang as a whole."""
        named = {section(replica.template, "spec").get("schedulerName") for replica in job.replicas}
        if not is_gang(job, options) or not named - {None, "", self.scheduler_name(options)}:
            return ()
        return (Event("Warning", f"{framework.set_word}{c.POD_TEMPLATE_SCHEDULER_NAME}", _OTHER_SCHEDULER),)

    def live(self, job: Job, seen: Seen) -> Object:
        """Return the job's own PodGroup as observed, or {}."""
        groups = seen.owned.get(self.resource, ())
        return next((g for g in groups if name_of(g) == job.name and controller_uid(g) == job.uid), {})


def is_gang(job: Job, options: OperatorOptions) -> bool:
    """Return whether the pods of a job are placed together."""
    return not options.gang_policy_only or job.run_policy.scheduling_policy is not None


def least_resources(job: Job, members: int, classes: Sequence[Object]) -> dict[str, str]:
    """Return what the first `members` pods request together, the most important first.

    Importance is the value of the priority class, then the kind's order of types. As upstream, init containers are
    left out, and limits stand for the requests of a container without any.
    """
    values = {name_of(each): int(each.get("value") or 0) for each in classes}

    def importance(replica: Replica) -> int:
        return values.get(str(section(replica.template, "spec").get("priorityClassName")), 0)

    parts: dict[str, list[tuple[Any, int]]] = {}
    left = members
    for replica in sorted(job.replicas, key=importance, reverse=True):
        count = min(replica.count, max(left, 0))
        left -= count
        for container in objects(section(replica.template, "spec"), "containers") if count else ():
            for name, amount in _requests(container).items():
                parts.setdefault(name, []).append((amount, count))
    return {name: quantity.total(amounts) for name, amounts in parts.items()}


def _requests(container: Object) -> Mapping[str, Any]:
    resources = section(container, "resources")
    return (
        section(resources, "requests")
        if resources.get("requests") is not None
        else section(resources, "limits")
    )
