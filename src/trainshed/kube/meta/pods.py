"""Pods as controllers see them: their state, and a new one from a template. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.times import parse_time

FINISHED = ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    """Return the pod's phase; Pending before anyone wrote one."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_active(pod: Object) -> bool:
    """Return whether the pod runs or will: neither finished nor being deleted."""
    return phase(pod) not in FINISHED and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Object) -> bool:
    """Return whether the pod's Ready condition is true."""
    return _ready(pod) is not None


def available_in(pod: Object, min_ready_seconds: int, now: float) -> float | None:
    """Return in how many seconds the ready pod counts as available, 0 when it does, None when it is not ready."""
    condition = _ready(pod)
    if condition is None:
        return None
    since = condition.get("lastTransitionTime")
    if not min_ready_seconds or not since:
        return 0.0
    return max(parse_time(since) + min_ready_seconds - now, 0.0)


def _ready(pod: Object) -> Object | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            return dict(condition)
    return None


def claim_names(pod: Object) -> list[str]:
    """Return the names of the claims that the pod mounts."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")]


def surplus(pods: Sequence[Object], count: int) -> list[Object]:
    """Return the `count` pods to delete: unscheduled before scheduled, unready before ready, young before old."""
    youngest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    order = sorted(youngest_first, key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod)))
    return order[:count]


def from_template(owner: Object, template: Object, *, generate_name: str) -> Object:
    """Return a new pod of `owner`; the caller may add to it."""
    template = copy_tree(template)
    given = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{name: given[name] for name in ("labels", "annotations", "finalizers") if name in given},
            "generateName": generate_name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": template["spec"],
    }
