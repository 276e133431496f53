"""Volcano's PodGroup: how it is read, and its status in Volcano's words."""

from __future__ import annotations

from collections.abc import Mapping

from trainshed.cluster.scheduler.gangs.group import Counts, Group
from trainshed.cluster.scheduler.gangs.placement import Queue
from trainshed.kube.meta.amounts import numbers
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section, spec_of, status_of
from trainshed.kube.meta.podgroups import DEFAULT_QUEUE, VOLCANO_PODGROUPS
from trainshed.kube.meta.times import format_time

_OUTSIDE = (None, "", "Pending")


def read(obj: Object, priorities: Mapping[str, int]) -> Group:
    """Return the group; `priorities` are the values of priority classes by name."""
    spec = spec_of(obj)
    return Group(
        resource=VOLCANO_PODGROUPS,
        namespace=namespace_of(obj),
        name=name_of(obj),
        min_member=int(spec.get("minMember") or 0),
        min_resources=numbers(section(spec, "minResources")),
        queue=str(spec.get("queue") or DEFAULT_QUEUE),
        priority=priorities.get(str(spec.get("priorityClassName"))),
        created=str(obj["metadata"].get("creationTimestamp") or ""),
    )


def is_let_in(obj: Object) -> bool:
    """Return whether the group was let into its queue before."""
    return status_of(obj).get("phase") not in _OUTSIDE


def read_queue(obj: Object) -> Queue:
    """Return what a Queue says."""
    spec = spec_of(obj)
    return Queue(
        name=name_of(obj),
        priority=int(spec.get("priority") or 0),
        capability=numbers(section(spec, "capability")),
        closed=status_of(obj).get("state") in ("Closed", "Closing"),
    )


def status(obj: Object, group: Group, counts: Counts, *, let_in: bool, why: str, now: float) -> Object:
    """Return the status that the PodGroup should have; `why` it waits as a whole is empty where it does not."""
    before = status_of(obj)
    out: Object = {"phase": _phase(group, counts, let_in=let_in, waits=bool(why))}
    for field in ("running", "succeeded", "failed"):
        if count := getattr(counts, field):
            out[field] = count
    condition: Object | None = None
    if why:
        condition = {"type": "Unschedulable", "reason": "NotEnoughResources", "message": why}
    elif counts.placed and counts.placed >= group.min_member:
        condition = {"type": "Scheduled", "reason": "tasks in gang are ready to be scheduled"}
    if condition is not None:
        found = next((c for c in objects(before, "conditions") if c.get("type") == condition["type"]), {})
        since = found.get("lastTransitionTime") or format_time(now)
        out["conditions"] = [{**condition, "status": "True", "lastTransitionTime": since}]
    return out


def _phase(group: Group, counts: Counts, *, let_in: bool, waits: bool) -> str:
    if not let_in:
        return "Pending"
    if counts.running and waits:
        return "Unknown"
    if counts.placed and counts.placed >= group.min_member:
        done = counts.succeeded + counts.failed
        return "Completed" if done and done == counts.placed else "Running"
    return "Inqueue"
