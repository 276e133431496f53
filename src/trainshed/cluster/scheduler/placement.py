"""Where a pod goes, the best node of those that meet every rule, and what is said about it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.feasibility import Wanted, wanted
from trainshed.cluster.scheduler.predicates import INSUFFICIENT, allocatable
from trainshed.cluster.scheduler.preemption import (
    NOT_HELPFUL,
    ON_THEIR_WAY,
    Nomination,
    Preempt,
    ineligible,
    nominate,
)
from trainshed.cluster.scheduler.scores import best
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.builtin.parts.pod.admission import GATED
from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, namespace_of, status_of, uid_of
from trainshed.kube.meta.plan import Action, Event, Plan
from trainshed.kube.meta.podgroups import COSCHEDULING_SCHEDULER, VOLCANO_SCHEDULER
from trainshed.kube.meta.pods import claim_names, ephemeral_claims
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time

DEFAULT_SCHEDULER = "default-scheduler"
SCHEDULERS = (DEFAULT_SCHEDULER, VOLCANO_SCHEDULER, COSCHEDULING_SCHEDULER)
"""What a pod may call the scheduler here: it does the work of all of them."""


class Observed(msgspec.Struct, frozen=True):
    """One pod that wants a node, and what decides over it. `now`: seconds since the epoch."""

    pod: Object
    snapshot: Snapshot
    now: float = 0.0


class Bind(Action, frozen=True, kw_only=True):
    """Bind the pod to `node`."""

    node: str


class Placement(msgspec.Struct, frozen=True):
    """The node's name, or why there is none in the words of `kubectl describe pod`, and which it gets after others.

    `nominated`: the node that it keeps waiting for.
    """

    node: str = ""
    why_not: str = ""
    after: Nomination | None = None
    nominated: str | None = None


def decide(observed: Observed) -> Plan:
    """Return the binding, or who gives way, or the status that says why the pod waits: its PodScheduled condition."""
    pod = observed.pod
    if pod["spec"].get("schedulingGates"):
        return Plan(status=_waiting(pod, "SchedulingGated", GATED, observed.now))
    placement = place(pod, observed.snapshot)
    if placement.node:
        return bound(pod, placement.node)
    if placement.after is None:
        return waits(pod, placement.why_not, observed.now, nominated=placement.nominated)
    after = placement.after
    return gives_way(pod, after, placement.why_not, f"pod {uid_of(pod)}", observed.now)


def bound(pod: Object, node: str) -> Plan:
    """Return the plan of a pod that has got a node."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    event = Event("Normal", "Scheduled", f"Successfully assigned {name} to {node}")
    return Plan(actions=(Bind(resource=PODS, node=node),), events=(event,))


def gives_way(pod: Object, after: Nomination, why_not: str, by: str, now: float) -> Plan:
    """Return the plan of a pod that waits until the nomination's victims are gone, preempted by `by`."""
    actions = [
        Preempt(resource=PODS, victim=victim, text=f"Preempted by {by} on node {victim.node}")
        for victim in after.victims
    ]
    status = _waiting(pod, "Unschedulable", why_not, now, nominated=after.node)
    return Plan(
        actions=tuple(actions), status=status, events=(Event("Warning", "FailedScheduling", why_not),)
    )


def waits(pod: Object, why_not: str, now: float, *, nominated: str | None = None) -> Plan:
    """Return the plan of a pod that waits, and says so in its status and an event."""
    status = _waiting(pod, "Unschedulable", why_not, now, nominated)
    return Plan(status=status, events=(Event("Warning", "FailedScheduling", why_not),))


def _waiting(
    pod: Object, reason: str, message: str, now: float, nominated: str | None = None
) -> Object | None:
    """Return the status to write, or None when the pod says so already."""
    conditions = status_of(pod).get("conditions") or ()
    before: Object = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    if before.get("message") == message and status_of(pod).get("nominatedNodeName") == nominated:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == "False" else format_time(now)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    if nominated == status_of(pod).get("nominatedNodeName"):
        return {"conditions": [condition]}
    return {"conditions": [condition], "nominatedNodeName": nominated}


def place(pod: Object, snapshot: Snapshot, *, alone: bool = True) -> Placement:
    """Return where a pod without gates goes. Only for one that is placed `alone` do others give way."""
    nodes = snapshot.nodes
    if not nodes:
        return Placement(why_not="no nodes available to schedule pods")
    if blocked := unusable_claim(pod, snapshot.claims_of(namespace_of(pod))):
        return _nobody_helps(pod, snapshot, blocked, alone=alone)
    want = wanted(pod, snapshot)
    refused: dict[str, list[str]] = {}
    candidates: dict[str, tuple[Object, Mapping[str, Decimal]]] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        held = snapshot.used.get(name, {})
        if problems := want.unmet(node, held):
            refused[name] = problems
        else:
            candidates[name] = (node, held)
    if candidates:
        nominated = status_of(pod).get("nominatedNodeName")
        if nominated in candidates:
            return Placement(node=nominated)
        return Placement(node=best(pod, want.needs, list(candidates.values()), want.affinities, want.spread))
    return _nowhere(want, snapshot, refused, alone=alone)


def _nowhere(want: Wanted, snapshot: Snapshot, refused: Mapping[str, list[str]], *, alone: bool) -> Placement:
    """Return why the pod waits, and whether it gets a node when others give way."""
    reasons = Counter(reason for problems in refused.values() for reason in problems)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    why = f"0/{len(snapshot.nodes)} nodes are available: {listed}."
    offers = _offers(want, snapshot, reasons)
    if not alone:
        return Placement(why_not=why + offers)
    nomination = nominate(want, snapshot, refused)
    if isinstance(nomination, Nomination):
        return Placement(why_not=why + offers, after=nomination)
    nominated = status_of(want.pod).get("nominatedNodeName") if nomination == ON_THEIR_WAY else None
    return Placement(why_not=f"{why} preemption: {nomination}{offers}", nominated=nominated)


def _nobody_helps(pod: Object, snapshot: Snapshot, why: str, *, alone: bool) -> Placement:
    """Return why the pod waits on all nodes alike, and for one that is placed `alone` that none may give way."""
    on_all = f"0/{len(snapshot.nodes)} nodes are available: "
    if not alone:
        return Placement(why_not=f"{on_all}{why}.")
    none = ineligible(pod, snapshot) or f"{on_all}{len(snapshot.nodes)} {NOT_HELPFUL}."
    return Placement(why_not=f"{on_all}{why}. preemption: {none}")


def unusable_claim(pod: Object, claims: Mapping[str, Object]) -> str:
    """Return why a claimed volume keeps the pod waiting, or an empty string."""
    for name in claim_names(pod):
        claim = claims.get(name)
        if claim is None and name in ephemeral_claims(pod):
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        phase = status_of(claim).get("phase")
        if phase == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
        if phase != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def _readable(name: str, amount: Decimal) -> str:
    """Return an amount for people: bytes in the largest binary unit of which there is one, to a tenth."""
    if name.startswith(_IN_BYTES):
        for power, unit in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount >= 1024**power:
                return f"{float(amount / 1024**power):.1f}".removesuffix(".0") + unit
    return quantity.canonical(str(amount))


def _offers(want: Wanted, snapshot: Snapshot, reasons: Mapping[str, int]) -> str:
    """Return what the nodes have of each resource that is short, so that the reader sees the gap at once."""
    parts = []
    for name, amount in sorted(want.needs.items()):
        if INSUFFICIENT + name not in reasons:
            continue
        most = max(max(_left(node, name, snapshot), Decimal(0)) for node in snapshot.nodes)
        parts.append(
            f"{name}: requested {_readable(name, amount)}, most free on one node {_readable(name, most)}"
        )
    return f" ({'; '.join(parts)})" if parts else ""


def _left(node: Object, name: str, snapshot: Snapshot) -> Decimal:
    held = snapshot.used.get(node["metadata"]["name"], {})
    return allocatable(node).get(name, Decimal(0)) - held.get(name, Decimal(0))
