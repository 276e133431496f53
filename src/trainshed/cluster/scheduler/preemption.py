"""Which pods give way to a more important one. Pure.

As kube-scheduler's DefaultPreemption: on each node where fewer pods would help, the less important ones are taken to be
gone, then spared one by one, the most important first and those before all whose PodDisruptionBudget would be broken.
Of the nodes, that one is taken where the fewest budgets are broken and the least important pods go.

Pods of a group go together: their priority is the highest among them, and when one has to go, all do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from trainshed.cluster.scheduler.feasibility import Wanted, wanted
from trainshed.cluster.scheduler.predicates import short
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot, less
from trainshed.kube.meta.objects import Object, namespace_of, section, spec_of, status_of
from trainshed.kube.meta.plan import Action
from trainshed.kube.meta.selectors import LabelSelector

NODES_AT_MOST = 100
"""So many nodes are tried out and compared, as upstream: one is needed."""
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
ON_THEIR_WAY = "not eligible due to a terminating pod on the nominated node."


class Preempt(Action, frozen=True, kw_only=True):
    """Delete the pod `victim`, which gives way; `text` is the event that tells it."""

    victim: ScheduledPod
    text: str


class Nomination(msgspec.Struct, frozen=True):
    """The node that a pod gets once the victims are gone."""

    node: str
    victims: tuple[ScheduledPod, ...] = ()


class _Victims(msgspec.Struct, frozen=True):
    """Who would go on one node, and how many budgets that breaks."""

    pods: tuple[ScheduledPod, ...]
    broken: int = 0


def nominate(want: Wanted, snapshot: Snapshot, refused: Mapping[str, list[str]]) -> Nomination | str:
    """Return where the pod goes and who gives way, or why nobody does. `refused` says what keeps it off each node."""
    if why := ineligible(want.pod, snapshot):
        return why
    priority = priority_of(want.pod)
    reasons: list[str] = []
    found: dict[str, _Victims] = {}
    lowest = snapshot.scheduled.lowest_priority()
    nobody = lowest is None or lowest >= priority
    for node in snapshot.nodes:
        name = node["metadata"]["name"]
        if not want.is_helped(node, refused[name]):
            reasons.append(NOT_HELPFUL)
        elif nobody:
            reasons.append(NO_VICTIMS)
        elif len(found) < NODES_AT_MOST:
            victims = _victims(want, snapshot, node, priority)
            if isinstance(victims, _Victims):
                found[name] = victims
            else:
                reasons.extend(victims)
    if not found:
        listed = ", ".join(sorted(f"{reasons.count(reason)} {reason}" for reason in set(reasons)))
        return f"0/{len(snapshot.nodes)} nodes are available: {listed}."
    node_name = min(found, key=lambda name: _cost(found[name]))
    return Nomination(node_name, found[node_name].pods)


def ineligible(pod: Object, snapshot: Snapshot) -> str:
    """Return why the pod may not make others give way, or nothing."""
    if spec_of(pod).get("preemptionPolicy") == "Never":
        return NEVER
    nominated = status_of(pod).get("nominatedNodeName")
    mine = priority_of(pod)
    if nominated and any(p.terminating and p.priority < mine for p in snapshot.scheduled.on(nominated)):
        return ON_THEIR_WAY
    return ""


def priority_of(pod: Object) -> int:
    """Return the pod's priority."""
    return int(spec_of(pod).get("priority") or 0)


def less_important(units: Iterable[Sequence[ScheduledPod]], priority: int) -> list[Sequence[ScheduledPod]]:
    """Return those units none of whose pods is as important as that, the most important first, then the oldest."""
    lower = [unit for unit in units if all(pod.priority < priority for pod in unit)]
    return sorted(lower, key=lambda unit: (-_highest(unit), min(pod.since for pod in unit)))


def spared(
    units: Sequence[Sequence[ScheduledPod]], fits: Callable[[Collection[int]], bool]
) -> list[Sequence[ScheduledPod]]:
    """Return the units that have to go: as few as can be, the first ones last. `fits` gets the indexes of who is gone.

    Tries halves, so that a thousand that may stay cost little more than one.
    """
    gone = set(range(len(units)))

    def spare(part: range) -> None:
        if fits(gone.difference(part)):
            gone.difference_update(part)
        elif len(part) > 1:
            middle = len(part) // 2
            spare(part[:middle])
            spare(part[middle:])

    if units:
        spare(range(len(units)))
    return [units[index] for index in sorted(gone)]


def breaking_last(
    units: Sequence[Sequence[ScheduledPod]], budgets: Sequence[Object]
) -> tuple[list[Sequence[ScheduledPod]], int]:
    """Return the units with those first whose end breaks a budget, and how many of them there are."""
    left = [int(status_of(budget).get("disruptionsAllowed") or 0) for budget in budgets]
    breaking: list[Sequence[ScheduledPod]] = []
    others: list[Sequence[ScheduledPod]] = []
    for unit in units:
        breaks = False
        for pod in unit:
            for index, budget in enumerate(budgets):
                if not pod.terminating and _protects(budget, pod):
                    left[index] -= 1
                    breaks |= left[index] < 0
        (breaking if breaks else others).append(unit)
    return [*breaking, *others], len(breaking)


def _victims(want: Wanted, snapshot: Snapshot, node: Object, priority: int) -> _Victims | list[str]:
    """Return who has to go on one node, or why it does not help."""
    name = node["metadata"]["name"]
    names = dict.fromkeys(pod.unit for pod in snapshot.scheduled.on(name))
    lower = less_important((snapshot.scheduled.of(unit) for unit in names), priority)
    if not lower:
        return [NO_VICTIMS]
    units, count = breaking_last(lower, snapshot.budgets)

    def problems(gone: Collection[int]) -> list[str]:
        pods = [pod for index in gone for pod in units[index]]
        if want.looks_at_pods:
            after = snapshot.without(pods)
            return wanted(want.pod, after).unmet(node, after.used.get(name, {}))
        used = snapshot.used.get(name, {})
        for pod in pods:
            if pod.node == name:
                used = less(used, pod.requests)
        return short(want.needs, node, used)

    if found := problems(range(len(units))):
        return found
    going = spared(units, lambda gone: not problems(gone))
    broken = sum(unit in going for unit in units[:count])
    return _Victims(tuple(pod for unit in going for pod in unit if not pod.terminating), broken)


def _cost(victims: _Victims) -> tuple[object, ...]:
    """Return what is compared: budgets broken, the highest priority, their sum, their number, who ran the longest."""
    priorities = [pod.priority for pod in victims.pods]
    highest = max(priorities, default=-(2**31))
    oldest = min((pod.since for pod in victims.pods if pod.priority == highest), default="")
    return victims.broken, highest, sum(p + 2**31 for p in priorities), len(priorities), _Later(oldest)


class _Later(msgspec.Struct, frozen=True):
    """A time that sorts before those that come earlier."""

    time: str

    def __lt__(self, other: _Later) -> bool:
        return self.time > other.time


def _highest(unit: Sequence[ScheduledPod]) -> int:
    return max(pod.priority for pod in unit)


def _protects(budget: Object, pod: ScheduledPod) -> bool:
    selector = section(budget, "spec").get("selector")
    if not selector or namespace_of(budget) != pod.namespace:
        return False
    if pod.name in section(status_of(budget), "disruptedPods"):
        return False
    return LabelSelector.from_object(selector).matches(pod.labels)
