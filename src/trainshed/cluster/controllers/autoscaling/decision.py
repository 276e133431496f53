"""What a HorizontalPodAutoscaler does now. Pure.

Source: autoscaling/v2 HorizontalPodAutoscaler; reasons and messages as kube-controller-manager 1.33 gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.cluster.controllers.autoscaling.limits import Change, Memory, bounds, limit, scaled
from trainshed.cluster.controllers.autoscaling.metrics import Cluster, Proposal, Unmeasured, Use, propose
from trainshed.kube.meta.objects import Object, objects, spec_of, status_of, unchanged_since
from trainshed.kube.meta.plan import Event, PlanOf
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
    refused: str = ""
    """Why nobody says what pods use."""


class SetReplicas(msgspec.Struct, frozen=True):
    """Give the target so many replicas; the reason is told."""

    replicas: int
    reason: str


class ScalingPlan(PlanOf[SetReplicas], frozen=True, kw_only=True):
    """Of one action at most. `memory` is what the next decision is to know; the status is always written."""

    status: Object
    memory: Memory = Memory()


def decide(observed: Observed) -> ScalingPlan:
    """Return what to do about an autoscaler."""
    target = observed.target
    if isinstance(target, str):
        text = f"the HPA controller was unable to get the target's current scale: {target}"
        status = _with(observed, _stored(observed), ("AbleToScale", "False", "FailedGetScale", text))
        return ScalingPlan(
            status=status, events=(Event("Warning", "FailedGetScale", target),), memory=observed.memory
        )
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
        return ScalingPlan(status={**status, "desiredReplicas": 0}, memory=memory)
    if target.wanted > most:
        return _rescaled(status, most, "Current number of replicas above Spec.MaxReplicas", memory)
    if target.wanted < least:
        return _rescaled(status, least, "Current number of replicas below Spec.MinReplicas", memory)
    return _by_metrics(observed, target, status, memory)


def _rescaled(status: Object, replicas: int, reason: str, memory: Memory) -> ScalingPlan:
    status = {**status, "desiredReplicas": replicas}
    return ScalingPlan(actions=(SetReplicas(replicas, reason),), status=status, memory=memory)


def _by_metrics(observed: Observed, target: Target, status: Object, memory: Memory) -> ScalingPlan:
    metrics = objects(spec_of(observed.autoscaler), "metrics")
    cluster = Cluster(observed.pods, observed.uses, observed.now, observed.refused)
    # A metric that says nothing has an entry without a type.
    shown: list[Object] = [{"type": ""} for _ in metrics]
    proposals: list[Proposal] = []
    failures: list[Unmeasured] = []
    if not target.selector:
        failures = [Unmeasured("InvalidSelector", "selector is required")] * len(metrics)
    else:
        for number, metric in enumerate(metrics):
            try:
                proposals.append(propose(metric, target.wanted, cluster))
                shown[number] = proposals[-1].status
            except Unmeasured as failure:
                failures.append(failure)
    best = max(proposals, key=lambda p: p.replicas, default=None)
    if best is None or (failures and best.replicas < target.wanted):
        return _unmeasured(observed, {**status, "currentMetrics": shown}, failures, len(metrics), memory)
    text = f"the HPA was able to successfully calculate a replica count from {best.name}"
    status = _with(observed, status, ("ScalingActive", "True", "ValidMetricFound", text))
    status["currentMetrics"] = shown
    limited = limit(observed.autoscaler, target.wanted, best.replicas, memory, observed.now)
    status = _with(
        observed, status, ("AbleToScale", "True", *limited.able), ("ScalingLimited", *limited.limited)
    )
    events = tuple(Event("Warning", failure.reason, str(failure)) for failure in failures)
    if limited.replicas == target.wanted:
        status = {**status, "desiredReplicas": target.wanted}
        return ScalingPlan(status=status, events=events, memory=limited.memory)
    above = f"{best.name} above target" if best.replicas > target.wanted else "All metrics below target"
    return ScalingPlan(
        actions=(SetReplicas(limited.replicas, above),),
        status={**status, "desiredReplicas": limited.replicas},
        events=events,
        memory=limited.memory,
    )


def _unmeasured(
    observed: Observed, status: Object, failures: Sequence[Unmeasured], metrics: int, memory: Memory
) -> ScalingPlan:
    first = failures[0]
    text = f"the HPA was unable to compute the replica count: {first}"
    status = _with(observed, status, ("ScalingActive", "False", first.reason, text))
    cause = f"failed to get {first.of} metric value: {first}" if first.of else str(first)
    whole = f"invalid metrics ({len(failures)} invalid out of {metrics}), first error is: {cause}"
    events = [Event("Warning", failure.reason, str(failure)) for failure in failures]
    events.append(Event("Warning", "FailedComputeMetricsReplicas", whole))
    return ScalingPlan(status=status, events=tuple(events), memory=memory)


def done(observed: Observed, plan: ScalingPlan, action: SetReplicas) -> ScalingPlan:
    """Return what is left of the plan after its replicas were set."""
    text = f"the HPA controller was able to update the target scale to {action.replicas}"
    status = _with(observed, plan.status, ("AbleToScale", "True", "SucceededRescale", text))
    status["lastScaleTime"] = format_time(observed.now)
    told = Event("Normal", "SuccessfulRescale", f"New size: {action.replicas}; reason: {action.reason}")
    memory = plan.memory
    if isinstance(observed.target, Target):
        memory = scaled(memory, observed.autoscaler, observed.target.wanted, action.replicas, observed.now)
    return _carried_out(plan, status, told, memory)


def refused(observed: Observed, plan: ScalingPlan, action: SetReplicas, error: str) -> ScalingPlan:
    """Return what is left of the plan after its replicas were refused."""
    text = f"the HPA controller was unable to update the target scale: {error}"
    status = _with(observed, plan.status, ("AbleToScale", "False", "FailedUpdateScale", text))
    if isinstance(observed.target, Target):
        status["desiredReplicas"] = observed.target.wanted
    why = f"New size: {action.replicas}; reason: {action.reason}; error: {error}"
    return _carried_out(plan, status, Event("Warning", "FailedRescale", why), plan.memory)


def _carried_out(plan: ScalingPlan, status: Object, told: Event, memory: Memory) -> ScalingPlan:
    return ScalingPlan(status=status, events=(*plan.events, told), memory=memory)


def _stored(observed: Observed, target: Target | None = None) -> Object:
    stored = dict(status_of(observed.autoscaler))
    # Upstream never says it: autoscalers have no generation.
    stored.pop("observedGeneration", None)
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
