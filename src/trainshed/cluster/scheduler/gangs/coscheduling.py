"""The PodGroup of scheduler-plugins: how it is read, and its status in the words of its controller."""

from __future__ import annotations

from trainshed.cluster.scheduler.gangs.group import Counts, Group
from trainshed.kube.meta.amounts import numbers
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, spec_of, status_of
from trainshed.kube.meta.podgroups import COSCHEDULING_PODGROUPS
from trainshed.kube.meta.times import format_time


def read(obj: Object) -> Group:
    """Return the group."""
    spec = spec_of(obj)
    timeout = spec.get("scheduleTimeoutSeconds")
    return Group(
        resource=COSCHEDULING_PODGROUPS,
        namespace=namespace_of(obj),
        name=name_of(obj),
        min_member=int(spec.get("minMember") or 0),
        min_resources=numbers(section(spec, "minResources")),
        timeout=float(timeout) if timeout else None,
        created=str(obj["metadata"].get("creationTimestamp") or ""),
    )


def status(obj: Object, group: Group, counts: Counts, *, now: float) -> Object:
    """Return the status that the PodGroup should have."""
    out: Object = {"phase": _phase(group, counts)}
    for field in ("running", "succeeded", "failed"):
        if count := getattr(counts, field):
            out[field] = count
    since = status_of(obj).get("scheduleStartTime")
    if since or out["phase"] != "Pending":
        out["scheduleStartTime"] = since or format_time(now)
    return out


def _phase(group: Group, counts: Counts) -> str:
    least = group.min_member
    if not counts.pods or counts.pods < least:
        return "Pending"
    if counts.failed and counts.failed + counts.running + counts.succeeded >= least:
        return "Failed"
    if counts.succeeded and counts.succeeded >= least:
        return "Finished"
    if counts.running and counts.running + counts.succeeded >= least:
        return "Running"
    return "Scheduling"
