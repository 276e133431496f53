"""What becomes of a node that is no longer heard of, is not ready, or is cordoned: its conditions and taints. Pure.

As Kubernetes' node lifecycle controller: a node whose Lease is not renewed has conditions of status Unknown; one that
is not ready gets taints, by which the scheduler leaves it alone and its pods go after the seconds that they tolerate.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.kube.meta.objects import Object, condition, name_of, spec_of, status_of
from trainshed.kube.meta.plan import Event, PlanOf
from trainshed.kube.meta.times import format_time

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_KUBELETS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
_SILENT = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


class Observed(msgspec.Struct, frozen=True):
    """One node. `silent`: its Lease was not renewed for longer than may be; `now`: seconds since the epoch."""

    node: Object
    silent: bool
    now: float


class SetTaints(msgspec.Struct, frozen=True):
    """Give the node these taints, and no others."""

    taints: list[Object]


class NodePlan(PlanOf[SetTaints], frozen=True, kw_only=True):
    """The status has conditions only: the rest is the kubelet's."""


def decide(observed: Observed) -> NodePlan:
    """Return what is to be written. Who hears of the node again, its kubelet, makes it ready."""
    node = observed.node
    conditions = _unknown(node, observed.now) if observed.silent else None
    ready = _status("Ready", status_of(node).get("conditions") or () if conditions is None else conditions)
    taints = _taints(node, ready, observed.now)
    events: tuple[Event, ...] = ()
    if conditions is not None:
        text = f"Node {name_of(node)} status is now: NodeNotReady"
        events = (Event("Normal", "NodeNotReady", text),)
    return NodePlan(
        actions=() if taints is None else (SetTaints(taints),),
        status=None if conditions is None else {"conditions": conditions},
        events=events,
    )


def is_silent_condition(node: Object) -> bool:
    """Return whether the node is known to be silent already."""
    return (condition(node, "Ready") or {}).get("status") == "Unknown"


def not_ready(pod: Object, now: float) -> list[Object] | None:
    """Return the conditions of a pod whose node is silent, None where they say so: nobody can reach it."""
    conditions = status_of(pod).get("conditions") or []
    if _status("Ready", conditions) != "True":
        return None
    stamp = format_time(now)
    return [
        {**c, "status": "False", "lastTransitionTime": stamp} if c["type"] == "Ready" else c
        for c in conditions
    ]


def _status(kind: str, conditions: Sequence[Object]) -> str:
    return next((str(c.get("status")) for c in conditions if c["type"] == kind), "")


def _unknown(node: Object, now: float) -> list[Object] | None:
    found = status_of(node).get("conditions") or []
    if all(c.get("status") == "Unknown" for c in found if c["type"] in _KUBELETS) and found:
        return None
    reason, message = _SILENT
    stamp = format_time(now)
    unknown = {"status": "Unknown", "reason": reason, "message": message, "lastTransitionTime": stamp}
    return [{**c, **unknown} if c["type"] in _KUBELETS else c for c in found]


def _taints(node: Object, ready: str, now: float) -> list[Object] | None:
    """Return the taints that the node is to have, None where it has them."""
    there: list[Object] = spec_of(node).get("taints") or []
    wanted: list[tuple[str, str]] = []
    if ready == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif ready == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    conditions = status_of(node).get("conditions") or ()
    wanted += [(key, "NoSchedule") for kind, key in _PRESSURES.items() if _status(kind, conditions) == "True"]
    if spec_of(node).get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    has = {(taint.get("key"), taint.get("effect")) for taint in there}
    # A node that has never said anything has the taint that it was made with.
    ours = (UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values(), *([NOT_READY] if ready else []))
    kept = [t for t in there if t.get("key") not in ours or (t["key"], t.get("effect")) in wanted]
    new = [
        {"key": key, "effect": effect, "timeAdded": format_time(now)}
        for key, effect in wanted
        if (key, effect) not in has
    ]
    return [*kept, *new] if new or kept != there else None
