"""Which changes of an object may let a pod that waits be placed: what of it decides over pods."""

from __future__ import annotations

from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    labels_of,
    section,
    status_of,
)


def offer(obj: Object) -> tuple[object, ...]:
    """Return what of a node or claim decides over pods: not the heartbeats."""
    status = status_of(obj)
    ready = [c.get("status") for c in status.get("conditions") or () if c["type"] == "Ready"]
    metadata = obj["metadata"]
    return (
        obj.get("spec"),
        metadata.get("labels"),
        metadata.get("deletionTimestamp"),
        status.get("allocatable"),
        status.get("phase"),
        ready,
    )


def asked(pod: Object) -> tuple[object, ...]:
    """Return what of a pod that has no node decides over it: not why it waits, which is our own word."""
    status = {key: value for key, value in status_of(pod).items() if key != "conditions"}
    return pod["spec"], labels_of(pod), is_terminating(pod), status


def regarded(pod: Object) -> tuple[object, ...]:
    """Return what of a pod that has a node decides over others."""
    return pod["spec"], labels_of(pod), is_terminating(pod), status_of(pod).get("startTime")


def group_policy(obj: Object) -> tuple[object, ...]:
    """Return what of a queue or priority class decides over groups."""
    return obj.get("spec"), obj.get("value"), section(obj, "status").get("state")
