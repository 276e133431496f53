"""Finds nodes for many pods at once: the least loaded node for each, the largest pod first; where that fails and there
are few pods, it goes back and tries other ways.

Pods with rules about other pods, or preferences, get the best node one after the other, without going back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec

from trainshed.cluster.scheduler.feasibility import wanted
from trainshed.cluster.scheduler.gangs.group import unit_of
from trainshed.cluster.scheduler.placement import place, unusable_claim
from trainshed.cluster.scheduler.predicates import allocatable, rules_unmet
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot, more
from trainshed.kube.meta.amounts import Amounts
from trainshed.kube.meta.objects import Object, labels_of, section

SEARCH_PODS = 32
SEARCH_STEPS = 2_000
"""What going back may cost: some milliseconds. Packing is hard in general, and gangs are mostly of equal pods."""

_ZERO = Decimal(0)
_Free: TypeAlias = dict[str, Amounts]


class _Shape(msgspec.Struct, frozen=True):
    """What pods of one sort ask for, and the nodes whose rules they meet; their share of the cluster as a size."""

    requests: Amounts
    nodes: tuple[str, ...]
    size: Decimal


def fit_all(pods: Sequence[Object], snapshot: Snapshot) -> list[str] | None:
    """Return a node for each pod, in their order, or None where not all of them fit together."""
    if any(map(_is_particular, pods)):
        found = _one_by_one(pods, snapshot)
        return None if None in found else [str(node) for node in found]
    free = snapshot.free_by_node()
    shapes = _shapes(pods, snapshot)
    order = sorted(range(len(pods)), key=lambda index: -shapes[index].size)
    chosen = _greedily([shapes[index] for index in order], free)
    if None in chosen and len(pods) <= SEARCH_PODS:
        chosen = _search([shapes[index] for index in order], free) or chosen
    if None in chosen:
        return None
    nodes = dict(zip(order, chosen, strict=True))
    return [str(nodes[index]) for index in range(len(pods))]


def fit_some(pods: Sequence[Object], snapshot: Snapshot) -> list[str | None]:
    """Return a node for each pod that fits beside those before it, None for the others."""
    if any(map(_is_particular, pods)):
        return _one_by_one(pods, snapshot)
    free = snapshot.free_by_node()
    return _greedily(_shapes(pods, snapshot), free)


def _is_particular(pod: Object) -> bool:
    """Return whether the pod minds which pods are beside it, or would rather go to some nodes than to others."""
    affinity = section(pod["spec"], "affinity")
    if (
        pod["spec"].get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
    ):
        return True
    return bool(section(affinity, "nodeAffinity").get("preferredDuringSchedulingIgnoredDuringExecution"))


def _one_by_one(pods: Sequence[Object], snapshot: Snapshot) -> list[str | None]:
    used, scheduled = dict(snapshot.used), snapshot.scheduled.copy()
    snapshot = msgspec.structs.replace(snapshot, used=used, scheduled=scheduled)
    out: list[str | None] = []
    for pod in pods:
        node = place(pod, snapshot, alone=False).node or None
        if node is not None:
            placed = ScheduledPod.of(pod, node, unit_of(pod))
            scheduled.put(placed)
            used[node] = more(used.get(node, {}), placed.requests)
        out.append(node)
    return out


def _shapes(pods: Sequence[Object], snapshot: Snapshot) -> list[_Shape]:
    known: dict[bytes, _Shape] = {}
    out = []
    for pod in pods:
        key = _key(pod, snapshot)
        if key not in known:
            known[key] = _shape(pod, snapshot)
        out.append(known[key])
    return out


def _key(pod: Object, snapshot: Snapshot) -> bytes:
    """Return what tells pods apart for their place: their labels only where pods that are there look at such."""
    spec = pod["spec"]
    parts = [pod["metadata"].get("namespace"), spec.get("overhead"), spec.get("volumes")]
    if next(snapshot.scheduled.wished(), None) is not None:
        parts.append(pod["metadata"].get("labels"))
    parts += [spec.get(field) for field in ("nodeSelector", "affinity", "tolerations", "ephemeralContainers")]
    for field in ("initContainers", "containers"):
        parts += [[c.get("resources"), c.get("restartPolicy")] for c in spec.get(field) or ()]
    return msgspec.json.encode(parts)


def _shape(pod: Object, snapshot: Snapshot) -> _Shape:
    want = wanted(pod, snapshot)
    requests = {name: amount for name, amount in want.needs.items() if amount}
    offered: Amounts = {}
    for node in snapshot.nodes:
        for name, amount in allocatable(node).items():
            offered[name] = offered.get(name, _ZERO) + amount
    size = max(
        (amount / offered[name] for name, amount in requests.items() if offered.get(name)), default=_ZERO
    )
    nodes: tuple[str, ...] = ()
    if not unusable_claim(pod, snapshot.claims_of(pod["metadata"].get("namespace", ""))):
        nodes = tuple(
            node["metadata"]["name"]
            for node in snapshot.nodes
            if not rules_unmet(pod, node) and not want.affinities.unmet(labels_of(node))
        )
    return _Shape(requests, nodes, size)


def _greedily(shapes: Sequence[_Shape], free: _Free) -> list[str | None]:
    left = {name: dict(amounts) for name, amounts in free.items()}
    out: list[str | None] = []
    for shape in shapes:
        node = next(_candidates(shape, left), None)
        if node is not None:
            _take(left[node], shape)
        out.append(node)
    return out


def _candidates(shape: _Shape, free: _Free) -> Iterator[str]:
    """Yield the nodes with room, that with the most left first; of nodes that are alike only one."""
    seen = []
    rows = [(_tightness(shape, free[name]), name) for name in shape.nodes if _has_snapshot(shape, free[name])]
    for _, name in sorted(rows):
        if free[name] not in seen:
            seen.append(free[name])
            yield name


def _has_snapshot(shape: _Shape, free: Mapping[str, Decimal]) -> bool:
    return all(amount <= free.get(name, _ZERO) for name, amount in shape.requests.items())


def _tightness(shape: _Shape, free: Mapping[str, Decimal]) -> Decimal:
    """Return the largest share of what is left that the pod takes."""
    return max(
        (amount / free[name] for name, amount in shape.requests.items() if free.get(name)), default=_ZERO
    )


def _take(free: Amounts, shape: _Shape, sign: int = 1) -> None:
    for name, amount in shape.requests.items():
        free[name] = free.get(name, _ZERO) - sign * amount


def _search(shapes: Sequence[_Shape], free: _Free) -> list[str | None] | None:
    """Return a node for each by trying them all, or None when there is none or it takes too long."""
    left = {name: dict(amounts) for name, amounts in free.items()}
    chosen: list[str | None] = []
    steps = SEARCH_STEPS

    def place(index: int) -> bool:
        nonlocal steps
        if index == len(shapes):
            return True
        shape = shapes[index]
        for node in list(_candidates(shape, left)):
            steps -= 1
            if steps < 0:
                return False
            _take(left[node], shape)
            chosen.append(node)
            if place(index + 1):
                return True
            chosen.pop()
            _take(left[node], shape, sign=-1)
        return False

    return chosen if place(0) else None
