"""Whether a group may start, where its pods go, and why it waits. Pure.

let in     its queue is open and has snapshot, and what it needs is free: Volcano's jobs make their pods only then
complete   at least `min_member` pods are there
placed     all of them, or at least `min_member`, have a node: these are bound at once, else none is
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.gangs.fitting import fit_all, fit_some
from trainshed.cluster.scheduler.gangs.group import Group, unit_of
from trainshed.cluster.scheduler.placement import place
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta import quantity
from trainshed.kube.meta.amounts import Amounts, add
from trainshed.kube.meta.objects import Object

_ZERO = Decimal(0)


class Queue(msgspec.Struct, frozen=True):
    """What a queue of Volcano's says: a higher priority first, no more than the capability in use, or nothing new."""

    name: str = ""
    priority: int = 0
    capability: Mapping[str, Decimal] = {}
    closed: bool = False


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One group and what decides over it.

    `placed`: how many of its pods have got a node. `waiting`: those that want one, the most important first.
    `let_in`: it was let into its queue before, or its API has none. `promised`: what groups were let in for that have
    not got their pods yet. `queue_used`: what the pods of its queue hold.
    """

    group: Group
    placed: int
    waiting: Sequence[Object]
    snapshot: Snapshot
    let_in: bool = True
    promised: Mapping[str, Decimal] = {}
    queue: Queue = Queue()
    queue_used: Mapping[str, Decimal] = {}


class GroupPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the group, whose pods have a plan each.

    `nodes` are those of `waiting` by index, None for a pod that waits.
    `why` is why the group as a whole waits, and empty where it does not. `incomplete`: pods of it are still to come.
    """

    let_in: bool
    nodes: tuple[str | None, ...] = ()
    why: str = ""
    incomplete: bool = False


def place_group(observed: Observed) -> GroupPlacement:
    """Return what becomes of the group."""
    group, waiting, snapshot = observed.group, observed.waiting, observed.snapshot
    if why := _kept_out(observed):
        return GroupPlacement(let_in=observed.let_in, nodes=(None,) * len(waiting), why=why)
    missing = group.min_member - observed.placed
    if len(waiting) < missing:
        there = observed.placed + len(waiting)
        why = f"{there} of at least {group.min_member} pods are there"
        return GroupPlacement(let_in=True, nodes=(None,) * len(waiting), why=why, incomplete=True)
    if not waiting:
        return GroupPlacement(let_in=True)
    everyone = fit_all(waiting, snapshot)
    if everyone is not None:
        return GroupPlacement(let_in=True, nodes=tuple(everyone))
    some = fit_some(waiting, snapshot)
    fitting = sum(node is not None for node in some)
    if fitting >= missing:
        return GroupPlacement(let_in=True, nodes=tuple(some))
    why = f"{fitting} of {len(waiting)} pods fit, at least {missing} must: {_why_not(observed, some)}"
    return GroupPlacement(let_in=True, nodes=(None,) * len(waiting), why=why)


def shortage(needed: Mapping[str, Decimal], free: Mapping[str, Decimal]) -> str:
    """Return which of the resources are short, and by how much, or nothing."""
    return "; ".join(
        f"{name}: needed {_text(amount)}, free {_text(max(free.get(name, _ZERO), _ZERO))}"
        for name, amount in sorted(needed.items())
        if amount > max(free.get(name, _ZERO), _ZERO)
    )


def _kept_out(observed: Observed) -> str:
    """Return why the group may not start yet: its queue, or what it needs beside the pods themselves."""
    group, queue = observed.group, observed.queue
    if observed.placed:
        needed = _requests(observed.waiting)
    else:
        needed = {**group.min_resources, **_requests(observed.waiting)}
    if queue.closed and not observed.let_in:
        return f'queue "{queue.name}" is closed'
    left = {name: most - observed.queue_used.get(name, _ZERO) for name, most in queue.capability.items()}
    if short := shortage({name: amount for name, amount in needed.items() if name in left}, left):
        return f'queue "{queue.name}" has reached its capability: {short}'
    if observed.placed:
        return ""
    free = observed.snapshot.free()
    if not observed.let_in:
        free = {name: amount - observed.promised.get(name, _ZERO) for name, amount in free.items()}
    if short := shortage(group.min_resources, free):
        return f"its minResources are not free: {short}"
    return ""


def _requests(pods: Sequence[Object]) -> Amounts:
    total: Amounts = {}
    for pod in pods:
        add(total, pod_requests(pod))
    total.pop("pods", None)
    return total


def _why_not(observed: Observed, nodes: Sequence[str | None]) -> str:
    """Return why the first pod without a node has none beside those that have one."""
    pairs = list(zip(observed.waiting, nodes, strict=True))
    snapshot = observed.snapshot.beside(
        ScheduledPod.of(pod, node, unit_of(pod)) for pod, node in pairs if node is not None
    )
    first = next(pod for pod, node in pairs if node is None)
    return place(first, snapshot, alone=False).why_not


def _text(amount: Decimal) -> str:
    return quantity.canonical(format(amount, "f"))
