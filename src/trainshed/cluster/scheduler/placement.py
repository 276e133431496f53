"""Where a pod goes, the least loaded node of those that meet every rule, and what is said about it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.predicates import allocatable, unmet
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.plan import Action, Event, Plan
from trainshed.kube.meta.podgroups import COSCHEDULING_SCHEDULER, VOLCANO_SCHEDULER
from trainshed.kube.meta.pods import claim_names
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time

DEFAULT_SCHEDULER = "default-scheduler"
SCHEDULERS = (DEFAULT_SCHEDULER, VOLCANO_SCHEDULER, COSCHEDULING_SCHEDULER)
"""What a pod may call the scheduler here: it does the work of all of them."""
GATED = "Scheduling is blocked due to non-empty scheduling gates"
UNREGARDED = "pods are placed without regard to other pods"


class Observed(msgspec.Struct, frozen=True):
    """One pod that wants a node, and what decides over it.

    `used`: what pods hold on each node by name, including those bound but not yet seen back. `claims`: those
    PersistentVolumeClaims of the pod that exist, by name. `now`: seconds since the epoch.
    """

    pod: Object
    nodes: Sequence[Object]
    used: Mapping[str, Mapping[str, Decimal]]
    claims: Mapping[str, Object]
    now: float = 0.0


class Bind(Action, frozen=True, kw_only=True):
    """Bind the pod to `node`."""

    node: str


class Placement(msgspec.Struct, frozen=True):
    """The node's name, or why there is none in the words of `kubectl describe pod`."""

    node: str = ""
    why_not: str = ""


def decide(observed: Observed) -> Plan:
    """Return the binding, or the status that says why the pod waits: its PodScheduled condition alone."""
    pod = observed.pod
    if pod["spec"].get("schedulingGates"):
        return Plan(status=_waiting(pod, "SchedulingGated", GATED, observed.now))
    placement = place(pod, observed.nodes, observed.used, observed.claims)
    return bound(pod, placement.node) if placement.node else waits(pod, placement.why_not, observed.now)


def bound(pod: Object, node: str) -> Plan:
    """Return the plan of a pod that has got a node."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    events = [Event("Normal", "Scheduled", f"Successfully assigned {name} to {node}")]
    if ignored := unregarded_fields(pod):
        events.append(Event("Warning", "FieldNotHonoured", f"{', '.join(ignored)}: {UNREGARDED}"))
    return Plan(actions=(Bind(resource=PODS, node=node),), events=tuple(events))


def waits(pod: Object, why_not: str, now: float) -> Plan:
    """Return the plan of a pod that waits, and says so in its status and an event."""
    status = _waiting(pod, "Unschedulable", why_not, now)
    return Plan(status=status, events=(Event("Warning", "FailedScheduling", why_not),))


def _waiting(pod: Object, reason: str, message: str, now: float) -> Object | None:
    """Return the status to write, or None when the pod says so already."""
    conditions = status_of(pod).get("conditions") or ()
    before: Object = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    if before.get("message") == message:
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
    return {"conditions": [condition]}


def unregarded_fields(pod: Object) -> list[str]:
    """Return the fields that placement does not look at; `preferred` rules are hints and may be passed over."""
    spec, required = pod["spec"], "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = section(spec, "affinity")
    fields = [
        f"spec.affinity.{name}"
        for name in ("podAffinity", "podAntiAffinity")
        if section(affinity, name).get(required)
    ]
    spread = spec.get("topologySpreadConstraints") or ()
    if any(c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for c in spread):
        fields.append("spec.topologySpreadConstraints")
    return fields


def place(
    pod: Object,
    nodes: Sequence[Object],
    used: Mapping[str, Mapping[str, Decimal]],
    claims: Mapping[str, Object],
) -> Placement:
    """Return where a pod without gates goes. The arguments are the fields of `Observed`."""
    blocked = unusable_claim(pod, claims)
    if blocked:
        return Placement(why_not=f"0/{len(nodes)} nodes are available: {blocked}.")
    reasons: Counter[str] = Counter()
    candidates: list[tuple[Decimal, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        held = used.get(name, {})
        problems = unmet(pod, node, held)
        if problems:
            reasons.update(problems)
        else:
            candidates.append((load_after(pod, node, held), name))
    if candidates:
        return Placement(node=min(candidates)[1])
    if not nodes:
        return Placement(why_not="no nodes available to schedule pods")
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return Placement(
        why_not=f"0/{len(nodes)} nodes are available: {listed}.{_offers(pod, nodes, reasons, used)}"
    )


def unusable_claim(pod: Object, claims: Mapping[str, Object]) -> str:
    """Return why a claimed volume keeps the pod waiting, or an empty string."""
    for name in claim_names(pod):
        claim = claims.get(name)
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


def load_after(pod: Object, node: Object, used: Mapping[str, Decimal]) -> Decimal:
    """Return the highest share of any resource in use once the pod is there, 0 to 1 (least-allocated score)."""
    offered = allocatable(node)
    needs = pod_requests(pod)
    shares = [
        (used.get(name, Decimal(0)) + needs.get(name, Decimal(0))) / amount
        for name, amount in offered.items()
        if amount
    ]
    return max(shares, default=Decimal(0))


_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def _readable(name: str, amount: Decimal) -> str:
    """Return an amount for people: bytes in the largest binary unit of which there is one, to a tenth."""
    if name.startswith(_IN_BYTES):
        for power, unit in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount >= 1024**power:
                return f"{float(amount / 1024**power):.1f}".removesuffix(".0") + unit
    return quantity.canonical(str(amount))


def _offers(
    pod: Object,
    nodes: Sequence[Object],
    reasons: Mapping[str, int],
    used: Mapping[str, Mapping[str, Decimal]],
) -> str:
    """Return what the nodes have of each resource that is short, so that the reader sees the gap at once."""
    needs = pod_requests(pod)
    parts = []
    for name, amount in sorted(needs.items()):
        if f"Insufficient {name}" not in reasons:
            continue
        free = [
            max(
                allocatable(node).get(name, Decimal(0))
                - used.get(node["metadata"]["name"], {}).get(name, Decimal(0)),
                Decimal(0),
            )
            for node in nodes
        ]
        parts.append(
            f"{name}: requested {_readable(name, amount)}, most free on one node {_readable(name, max(free))}"
        )
    return f" ({'; '.join(parts)})" if parts else ""
