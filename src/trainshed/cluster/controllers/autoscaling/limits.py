"""How fast the number of replicas may change. Pure.

Source: autoscaling/v2 HorizontalPodAutoscalerBehavior, and "Configurable scaling behavior" in the Kubernetes
documentation. Without `spec.behavior` the older rules hold: at most twice as many (or 4) at once, and fewer only when
that was right for five minutes.
"""

from __future__ import annotations

import math

import msgspec

from trainshed.kube.meta.objects import Object, section, spec_of

DOWNSCALE_SECONDS = 300.0


class Change(msgspec.Struct, frozen=True):
    """At an instant: a number of replicas that was recommended, or by which the number has changed."""

    at: float
    replicas: int


class Memory(msgspec.Struct, frozen=True):
    """What an autoscaler remembers between two looks, newest last."""

    recommended: tuple[Change, ...] = ()
    added: tuple[Change, ...] = ()
    removed: tuple[Change, ...] = ()


class Limited(msgspec.Struct, frozen=True):
    """A number of replicas within all limits, what is remembered, and why it is not the number that was asked for.

    `able` is reason and message of AbleToScale, `limited` those of ScalingLimited with its status.
    """

    replicas: int
    memory: Memory
    able: tuple[str, str]
    limited: tuple[str, str, str]


_READY = ("ReadyForNewScale", "recommended size matches current size")
_LATER_FEWER = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_LATER_MORE = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_IN_RANGE = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = (
    "True",
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
_TOO_FEW = ("True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP = (
    "True",
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_TOO_FAST_DOWN = (
    "True",
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)


def limit(autoscaler: Object, current: int, desired: int, memory: Memory, now: float) -> Limited:
    """Return how many replicas there may be now, when a metric asks for `desired`."""
    behavior = section(spec_of(autoscaler), "behavior")
    up = float(section(behavior, "scaleUp").get("stabilizationWindowSeconds") or 0)
    window = section(behavior, "scaleDown").get("stabilizationWindowSeconds")
    down = DOWNSCALE_SECONDS if window is None else float(window)
    steady = _steady(current, desired, memory, now, up, down)
    longest = max(up, down)
    recommended = (*(c for c in memory.recommended if c.at > now - longest), Change(now, desired))
    able = _READY if steady == desired else _LATER_FEWER if steady > desired else _LATER_MORE
    bounded = _by_rules if behavior else _by_default
    replicas, limited = bounded(autoscaler, current, steady, memory, now)
    return Limited(replicas, msgspec.structs.replace(memory, recommended=recommended), able, limited)


def _steady(current: int, desired: int, memory: Memory, now: float, up: float, down: float) -> int:
    """Return the number nearest to the current one between the lowest and the highest of the recent recommendations."""
    lowest = min([desired, *(c.replicas for c in memory.recommended if c.at > now - up)])
    highest = max([desired, *(c.replicas for c in memory.recommended if c.at > now - down)])
    return min(max(current, lowest), highest)


def bounds(autoscaler: Object) -> tuple[int, int]:
    """Return the least and the most replicas."""
    spec = spec_of(autoscaler)
    least = spec.get("minReplicas")
    return 1 if least is None else int(least), int(spec["maxReplicas"])


def _by_default(
    autoscaler: Object, current: int, desired: int, memory: Memory, now: float
) -> tuple[int, tuple[str, str, str]]:
    least, most = bounds(autoscaler)
    fast = max(2 * current, 4)
    if desired < least:
        return least, _TOO_FEW
    if desired > min(fast, most):
        return min(fast, most), _TOO_FAST_UP if most > fast else _TOO_MANY
    return desired, _IN_RANGE


def _by_rules(
    autoscaler: Object, current: int, desired: int, memory: Memory, now: float
) -> tuple[int, tuple[str, str, str]]:
    least, most = bounds(autoscaler)
    behavior = section(spec_of(autoscaler), "behavior")
    if desired > current:
        fast = max(_reach(section(behavior, "scaleUp"), current, memory, now, 1), current)
        if desired > min(fast, most):
            return min(fast, most), _TOO_FAST_UP if most > fast else _TOO_MANY
    elif desired < current:
        slow = min(_reach(section(behavior, "scaleDown"), current, memory, now, -1), current)
        if desired < max(slow, least):
            return max(slow, least), _TOO_FAST_DOWN if least < slow else _TOO_FEW
    return desired, _IN_RANGE


def _reach(rules: Object, current: int, memory: Memory, now: float, direction: int) -> int:
    """Return the number of replicas that the policies let it come to now, upwards (1) or downwards (-1)."""
    select = rules.get("selectPolicy") or "Max"
    if select == "Disabled":
        return current
    reached = [_policy(policy, current, memory, now, direction) for policy in rules.get("policies") or ()]
    furthest = max if (select == "Max") == (direction > 0) else min
    return furthest(reached, default=current)


def _policy(policy: Object, current: int, memory: Memory, now: float, direction: int) -> int:
    since = now - float(policy["periodSeconds"])
    added = sum(c.replicas for c in memory.added if c.at > since)
    removed = sum(c.replicas for c in memory.removed if c.at > since)
    start, value = current - added + removed, int(policy["value"])
    if policy["type"] == "Pods":
        return start + direction * value
    share = start * (1 + direction * value / 100)
    return math.ceil(share) if direction > 0 else int(share)


def scaled(memory: Memory, autoscaler: Object, old: int, new: int, now: float) -> Memory:
    """Return the memory after the number of replicas went from `old` to `new`."""
    behavior = section(spec_of(autoscaler), "behavior")
    periods = [
        float(policy["periodSeconds"])
        for rules in ("scaleUp", "scaleDown")
        for policy in section(behavior, rules).get("policies") or ()
    ]
    since = now - max(periods, default=0.0)

    def kept(changes: tuple[Change, ...], more: int) -> tuple[Change, ...]:
        return (*(c for c in changes if c.at > since), *([Change(now, more)] if more > 0 else []))

    return Memory(memory.recommended, kept(memory.added, new - old), kept(memory.removed, old - new))
