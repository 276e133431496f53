"""What a claim's status says while its volume grows. Pure.

As the resizer of a driver without a step on nodes writes it (kubernetes-csi/external-resizer, KEP-1790, KEP-284):
directories have no file system of their own, so `FileSystemResizePending` never comes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.times import format_time

RESIZING = "Resizing"
_IN_PROGRESS = "ControllerResizeInProgress"


def wanted_size(claim: Object) -> str:
    """Return the size that the claim asks for, as it is written."""
    return str(section(claim["spec"], "resources", "requests").get("storage", "0"))


def begun(claim: Object, now: float) -> Mapping[str, Any] | None:
    """Return the status of a claim that is to grow, None where it says so already."""
    status, size = status_of(claim), wanted_size(claim)
    if is_resizing(claim) and section(status, "allocatedResources").get("storage") == size:
        return None
    condition = {"type": RESIZING, "status": "True", "lastTransitionTime": format_time(now)}
    return {
        "conditions": [*_others(claim), condition],
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": _IN_PROGRESS},
    }


def ended(claim: Object) -> Mapping[str, Any]:
    """Return what the status of a claim that has grown says besides its capacity; nothing of one that has not."""
    if not is_resizing(claim):
        return {}
    return {"conditions": _others(claim) or None, "allocatedResourceStatuses": None}


def is_resizing(claim: Object) -> bool:
    """Return whether the claim says that it grows."""
    return any(one["type"] == RESIZING for one in status_of(claim).get("conditions") or ())


def _others(claim: Object) -> list[Object]:
    return [one for one in status_of(claim).get("conditions") or () if one["type"] != RESIZING]
