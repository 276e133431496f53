"""Who gives way to a group. Pure.

A group preempts as a whole or not at all: when all that is less important would be gone and enough of its pods still
did not fit, nobody goes. Else everything is spared that can be, the most important first, and before all that whose
PodDisruptionBudget would be broken.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from trainshed.cluster.scheduler.gangs.placement import GroupPlacement, Observed, place_group
from trainshed.cluster.scheduler.preemption import breaking_last, ineligible, less_important, spared
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod


class Clearing(msgspec.Struct, frozen=True):
    """Where the pods of a group go once the victims are gone."""

    nodes: tuple[str | None, ...]
    victims: tuple[ScheduledPod, ...]


def clear(observed: Observed, priority: int) -> Clearing | None:
    """Return who gives way to a group that does not fit, None where nobody can or may."""
    snapshot = observed.snapshot
    lowest = snapshot.scheduled.lowest_priority()
    if lowest is None or lowest >= priority or any(ineligible(pod, snapshot) for pod in observed.waiting):
        return None
    units, _ = breaking_last(less_important(snapshot.scheduled.units(), priority), snapshot.budgets)

    def without(gone: Sequence[Sequence[ScheduledPod]]) -> GroupPlacement:
        after = snapshot.without(pod for unit in gone for pod in unit)
        return place_group(msgspec.structs.replace(observed, snapshot=after))

    def fits(gone: Collection[int]) -> bool:
        return not without([units[index] for index in gone]).why

    if not fits(range(len(units))):
        return None
    going = spared(units, fits)
    victims = tuple(pod for unit in going for pod in unit if not pod.terminating)
    return Clearing(without(going).nodes, victims)
