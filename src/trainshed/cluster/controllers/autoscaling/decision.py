"""What a HorizontalPodAutoscaler does now. Pure.

Source: autoscaling/v2 HorizontalPodAutoscaler; reasons and messages as kube-controller-manager 1.33 gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.cluster.controllers.autoscaling.limits import Change, Memory, bounds, limit
from trainshed.cluster.controllers.autoscaling.metrics import Cluster, Proposal, Unmeasured, Use, propose
from trainshed.kube.meta.objects import Object, objects, spec_of, status_of, unchanged_since
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.times import format_time

SYNC_SECONDS = 15.0
"""How often an autoscaler looks, as upstream's `--horizontal-pod-autoscaler-sync-period`."""


class Target(msgspec.Struct, frozen=True):
    """The Scale of what is autoscaled: `wanted` and `current` replicas, and the selector of its pods."""

    wanted: int
    current: int
    selector: str


class Observed(msgspec.Struct, frozen=True):
    """One autoscaler and what it goes by; a text as `target` says why there is none. `now`: seconds since the epoch."""

    autoscaler: Object
    target: Target | str
    pods: Sequence[Object]
    uses: Mapping[str, Use]
    memory: Memory
    now: float


class Decision(msgspec.Struct, frozen=True):
    """The status to write, its events, the replicas to set (None: leave them) and why, and what to remember."""

    status: Object
    events: tuple[Event, ...] = ()
    replicas: int | None = None
    reason: str = ""
    memory: Memory = Memory()


def decide(observed: Observed) -> Decision:
    """Return what to do about an autoscaler."""
    target = observed.target
    if isinstance(target, str):
        text = f"the HPA controller was unable to get the target's current scale: {target}"
        status = _with(observed, _stored(observed), ("AbleToScale", "False", "FailedGetScale", text))
        return Decision(status, (Event("Warning", "FailedGetScale", target),), memory=observed.memory)
    memory = observed.memory
    if not memory.recommended:
        first = Change(observed.now, target.wanted)
        memory = msgspec.structs.replace(memory, recommended=(first,))
    text = "the HPA controller was able to get the target's current scale"
    status = _with(observed, _stored(observed, target), ("AbleToScale", "True", "SucceededGetScale", text))
    least, most = bounds(observed.autoscaler)
    if target.wanted == 0 and least != 0:
        text = "scaling is disabled since the replica count of the target is zero"
        status = _with(observed, status, ("ScalingActive", "False", "ScalingDisabled", text))
        return Decision({**status, "desiredReplicas": 0}, memory=memory)
    if target.wanted > most:
        return _rescaled(status, most, "Current number of replicas above Spec.MaxReplicas", memory)
    if target.wanted < least:
        return _rescaled(status, least, "Current number of replicas below Spec.MinReplicas", memory)
    return _by_metrics(observed, target, status, memory)


def _rescaled(status: Object, replicas: int, reason: str, memory: Memory) -> Decision:
    return Decision({**status, "desiredReplicas": replicas}, (), replicas, reason, memory)


def _by_metrics(observed: Observed, target: Target, status: Object, memory: Memory) -> Decision:
    metrics = objects(spec_of(observed.autoscaler), "metrics")
    cluster = Cluster(observed.pods, observed.uses, observed.now)
    proposals: list[Proposal] = []
    failures: list[Unmeasured] = []
    if not target.selector:
        failures = [Unmeasured("InvalidSelector", "selector is required")] * len(metrics)
    else:
        for metric in metrics:
            try:
                proposals.append(propose(metric, target.wanted, cluster))
            except Unmeasured as failure:
                failures.append(failure)
    best = max(proposals, key=lambda p: p.replicas, default=None)
    if best is None or (failures and best.replicas < target.wanted):
        return _unmeasured(observed, status, failures, len(metrics), memory)
    text = f"the HPA was able to successfully calculate a replica count from {best.name}"
    status = _with(observed, status, ("ScalingActive", "True", "ValidMetricFound", text))
    status["currentMetrics"] = [proposal.status for proposal in proposals]
    limited = limit(observed.autoscaler, target.wanted, best.replicas, memory, observed.now)
    status = _with(
        observed, status, ("AbleToScale", "True", *limited.able), ("ScalingLimited", *limited.limited)
    )
    events = tuple(Event("Warning", failure.reason, str(failure)) for failure in failures)
    if limited.replicas == target.wanted:
        return Decision({**status, "desiredReplicas": target.wanted}, events, memory=limited.memory)
    above = f"{best.name} above target" if best.replicas > target.wanted else "All metrics below target"
    status = {**status, "desiredReplicas": limited.replicas}
    return Decision(status, events, limited.replicas, above, limited.memory)


def _unmeasured(
    observed: Observed, status: Object, failures: Sequence[Unmeasured], metrics: int, memory: Memory
) -> Decision:
    first = failures[0]
    text = f"the HPA was unable to compute the replica count: {first}"
    status = _with(observed, status, ("ScalingActive", "False", first.reason, text))
    whole = f"invalid metrics ({len(failures)} invalid out of {metrics}), first error is: {first}"
    events = [Event("Warning", failure.reason, str(failure)) for failure in failures]
    events.append(Event("Warning", "FailedComputeMetricsReplicas", whole))
    return Decision(status, tuple(events), memory=memory)


def set_replicas(observed: Observed, decision: Decision) -> Decision:
    """Return the decision after its replicas were set."""
    text = f"the HPA controller was able to update the target scale to {decision.replicas}"
    status = _with(observed, decision.status, ("AbleToScale", "True", "SucceededRescale", text))
    status["lastScaleTime"] = format_time(observed.now)
    told = Event("Normal", "SuccessfulRescale", f"New size: {decision.replicas}; reason: {decision.reason}")
    return msgspec.structs.replace(decision, status=status, events=(*decision.events, told))


def refused(observed: Observed, decision: Decision, error: str) -> Decision:
    """Return the decision after its replicas were refused."""
    text = f"the HPA controller was unable to update the target scale: {error}"
    status = _with(observed, decision.status, ("AbleToScale", "False", "FailedUpdateScale", text))
    target = observed.target
    if isinstance(target, Target):
        status["desiredReplicas"] = target.wanted
    told = Event(
        "Warning",
        "FailedRescale",
        f"New size: {decision.replicas}; reason: {decision.reason}; error: {error}",
    )
    return msgspec.structs.replace(decision, status=status, events=(*decision.events, told))


def _stored(observed: Observed, target: Target | None = None) -> Object:
    stored = dict(status_of(observed.autoscaler))
    stored["observedGeneration"] = int(observed.autoscaler["metadata"].get("generation") or 0)
    stored.setdefault("currentReplicas", 0)
    stored.setdefault("desiredReplicas", 0)
    if target is not None:
        stored["currentReplicas"] = target.current
        stored["currentMetrics"] = None
    return stored


def _with(observed: Observed, status: Object, *conditions: tuple[str, str, str, str]) -> Object:
    """Return the status with these conditions: type, status, reason and message."""
    out = list(status.get("conditions") or ())
    for kind, value, reason, message in conditions:
        before = next((c for c in out if c["type"] == kind), None)
        new = {
            "type": kind,
            "status": value,
            "lastTransitionTime": unchanged_since(before, value, format_time(observed.now)),
            "reason": reason,
            "message": message,
        }
        out = [new if c is before else c for c in out] if before is not None else [*out, new]
    return {**status, "conditions": out}
