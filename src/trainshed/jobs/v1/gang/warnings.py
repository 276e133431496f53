"""What a client is told when it stores a job whose scheduling policy has no effect, or can never be met."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.podgroups import VOLCANO_SCHEDULER

_POLICY = "spec.runPolicy.schedulingPolicy"
IGNORED = f"{_POLICY} has no effect: no gang scheduler is configured"


def scheduling_warnings(kind: JobKind, document: Object, options: OperatorOptions) -> Iterator[str]:
    """Yield the warnings of one job; whether pods are placed together depends on how the operator was started."""
    policy = section(document, "spec", "runPolicy", "schedulingPolicy")
    if not options.gang_scheduler:
        if policy:
            yield IGNORED
        return
    volcano = options.gang_scheduler.lower() == VOLCANO_SCHEDULER
    api = "Volcano" if volcano else "scheduler-plugins"
    for field in ("scheduleTimeoutSeconds",) if volcano else ("queue", "priorityClass"):
        if policy.get(field):
            yield f"{_POLICY}.{field} has no effect: PodGroups of {api} have none"
    least, pods = policy.get("minAvailable"), _pods(kind, document)
    if isinstance(least, int) and least > pods and not section(document, "spec", "elasticPolicy"):
        yield f"{_POLICY}.minAvailable is {least}, more than the {pods} pods of the job: none will start"


def _pods(kind: JobKind, document: Object) -> int:
    """Return how many pods the job wants at present."""
    specs = section(kind.defaults(document), "spec", kind.replica_specs_field)
    counts = [section(specs, type_).get("replicas") for type_ in kind.type_names]
    return sum(max(count, 0) for count in counts if isinstance(count, int))
