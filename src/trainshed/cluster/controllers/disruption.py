"""How many pods of a PodDisruptionBudget may be evicted now. Pure.

Source: policy/v1 PodDisruptionBudgetStatus, and "Disruptions" in the Kubernetes documentation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import (
    Object,
    condition,
    is_terminating,
    name_of,
    section,
    spec_of,
    status_of,
    unchanged_since,
)
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.plan import Event, Plan
from trainshed.kube.meta.pods import is_finished, is_ready
from trainshed.kube.meta.times import format_time, parse_time

EVICTION_SECONDS = 120.0
"""How long an eviction may take to show in the pod, before the pod counts as staying."""
ALLOWED = "DisruptionAllowed"


class Observed(msgspec.Struct, frozen=True):
    """One budget, the pods that it selects, and the replica counts of what controls them.

    Attributes:
        scales: desired replicas by the uid of a pod's controller; a text says why there is no such count.
        now: seconds since the epoch.
    """

    budget: Object
    pods: Sequence[Object]
    scales: Mapping[str, int | str]
    now: float


class _Unknown(Exception):
    """The count of expected pods cannot be told."""


def decide(observed: Observed) -> Plan:
    """Return the status of the budget, and the events that explain it."""
    budget, now = observed.budget, observed.now
    pods = [pod for pod in observed.pods if not is_finished(pod)]
    evicted, forget = _evicted(budget, pods, now)
    healthy = sum(is_ready(pod) and not is_terminating(pod) and name_of(pod) not in evicted for pod in pods)
    events: list[Event] = []
    if not pods:
        events.append(Event("Normal", "NoPods", "No matching pods found"))
    stored = status_of(budget)
    try:
        expected, desired = _expected(budget, pods, observed.scales, events)
    except _Unknown as error:
        events.append(
            Event(
                "Warning",
                "CalculateExpectedPodCountFailed",
                f"Failed to calculate the number of expected pods: {error}",
            )
        )
        status = {**stored, "disruptionsAllowed": 0, "observedGeneration": _generation(budget)}
        status["conditions"] = _conditions(budget, "False", "SyncFailed", str(error), now)
        return Plan(status=status, events=_news(budget, status, events))
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status = {
        "observedGeneration": _generation(budget),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": _conditions(budget, "True" if allowed else "False", reason, "", now),
    }
    if evicted:
        status["disruptedPods"] = evicted
    return Plan(status=status, events=_news(budget, status, events), requeue_after=forget)


def _generation(budget: Object) -> int:
    return int(budget["metadata"].get("generation") or 0)


def _news(budget: Object, status: Object, events: list[Event]) -> tuple[Event, ...]:
    """Return the events if there is anything new to tell: the same state is not told again."""
    return tuple(events) if status != status_of(budget) else ()


def _evicted(budget: Object, pods: Sequence[Object], now: float) -> tuple[dict[str, str], float | None]:
    """Return which pods are about to go by an eviction and since when, and the seconds until one stays after all."""
    there = {name_of(pod): pod for pod in pods}
    out: dict[str, str] = {}
    waits = []
    for name, since in section(status_of(budget), "disruptedPods").items():
        pod = there.get(name)
        left = parse_time(since) + EVICTION_SECONDS - now
        if pod is not None and not is_terminating(pod) and left > 0:
            out[name] = since
            waits.append(left)
    return out, min(waits, default=None)


def _expected(
    budget: Object, pods: Sequence[Object], scales: Mapping[str, int | str], events: list[Event]
) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them have to be healthy."""
    spec = spec_of(budget)
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        expected = _scale(budget, pods, scales, events)
        return expected, max(expected - _amount(most, expected), 0)
    if isinstance(least, int):
        return len(pods), least
    if least is not None:
        expected = _scale(budget, pods, scales, events)
        return expected, _amount(least, expected)
    return len(pods), 0


def _amount(value: Any, total: int) -> int:
    return value if isinstance(value, int) else math.ceil(total * int(str(value).rstrip("%")) / 100)


def _scale(
    budget: Object, pods: Sequence[Object], scales: Mapping[str, int | str], events: list[Event]
) -> int:
    counts: dict[str, int] = {}
    unmanaged = 0
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            unmanaged += 1
            continue
        found = scales.get(owner["uid"])
        if not isinstance(found, int):
            raise _Unknown(found or f'found no controllers for pod "{name_of(pod)}"')
        counts[owner["uid"]] = found
    if unmanaged:
        written = _as_in_go(section(spec_of(budget), "selector"))
        text = (
            f"Pods selected by this PodDisruptionBudget (selector: {written}) were found to be unmanaged. As a result,"
            " the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account"
            ' for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
        )
        events.append(Event("Warning", "UnmanagedPods", text))
    return sum(counts.values())


def _as_in_go(selector: Object) -> str:
    """Return a label selector as Go writes it, which is how the event shows it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(section(selector, "matchLabels").items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{rule.get('key')},Operator:{rule.get('operator')},"
        f"Values:[{' '.join(rule.get('values') or ())}],}},"
        for rule in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )


def _conditions(budget: Object, status: str, reason: str, message: str, now: float) -> list[Object]:
    new = {
        "type": ALLOWED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": unchanged_since(condition(budget, ALLOWED), status, format_time(now)),
        "observedGeneration": _generation(budget),
    }
    others = [c for c in status_of(budget).get("conditions") or () if c.get("type") != ALLOWED]
    return [*others, new]
