"""The pods that have a node, as the rules of other pods look at them. Kept up to date pod by pod, as the ledger is.

What is alike is kept together: a thousand pods with the same rule against each other are one rule on a thousand nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.affinityterms import Wish, wishes
from trainshed.cluster.scheduler.gangs.group import Unit
from trainshed.cluster.scheduler.requests import pod_needs
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainshed.kube.meta.pods import claim_names

_OnNodes = Counter[str]
"""How many on each node, by its name."""


class ScheduledPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has a node.

    `unit`: what it is placed, and preempted, together with. `since`: when it was started, else created, as the API
    writes times.
    """

    uid: str
    namespace: str
    name: str
    node: str
    unit: Unit
    labels: Mapping[str, str] = {}
    priority: int = 0
    since: str = ""
    terminating: bool = False
    requests: Mapping[str, Decimal] = {}
    wishes: tuple[Wish, ...] = ()
    claims: tuple[str, ...] = ()

    @classmethod
    def of(cls, pod: Object, node: str, unit: Unit) -> ScheduledPod:
        """Return the pod as it is on the node."""
        return cls(
            uid=uid_of(pod),
            namespace=namespace_of(pod),
            name=name_of(pod),
            node=node,
            unit=unit,
            labels=labels_of(pod),
            priority=int(spec_of(pod).get("priority") or 0),
            since=status_of(pod).get("startTime") or pod["metadata"].get("creationTimestamp") or "",
            terminating=is_terminating(pod),
            requests=pod_needs(pod),
            wishes=wishes(pod),
            claims=tuple(claim_names(pod)),
        )


class _Sort(msgspec.Struct, frozen=True):
    """What tells pods apart for selectors."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    terminating: bool


class ScheduledPods:
    """The placed pods by node, by what selects them, and by what they wish of others."""

    def __init__(self) -> None:
        self._pods: dict[str, ScheduledPod] = {}
        self._on: dict[str, dict[str, ScheduledPod]] = {}
        self._units: dict[Unit, dict[str, ScheduledPod]] = {}
        self._sorts: dict[_Sort, tuple[ScheduledPod, _OnNodes]] = {}
        self._wishes: dict[Wish, _OnNodes] = {}
        self._priorities: Counter[int] = Counter()
        self._claims: Counter[tuple[str, str]] = Counter()

    def put(self, pod: ScheduledPod) -> bool:
        """Take a pod in, or what is new of it; return whether anything is new."""
        if self._pods.get(pod.uid) == pod:
            return False
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._on.setdefault(pod.node, {})[pod.uid] = pod
        self._units.setdefault(pod.unit, {})[pod.uid] = pod
        self._sorts.setdefault(_sort(pod), (pod, Counter()))[1][pod.node] += 1
        for wish in pod.wishes:
            self._wishes.setdefault(wish, Counter())[pod.node] += 1
        self._priorities[pod.priority] += 1
        self._claims.update((pod.namespace, claim) for claim in pod.claims)
        return True

    def remove(self, uid: str) -> None:
        """Leave a pod out."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        for groups, key in ((self._on, pod.node), (self._units, pod.unit)):
            _drop(groups, key, uid)  # type: ignore[arg-type]  # both are dicts of dicts
        sort = _sort(pod)
        if _less(self._sorts[sort][1], pod.node):
            del self._sorts[sort]
        for wish in pod.wishes:
            if _less(self._wishes[wish], pod.node):
                del self._wishes[wish]
        self._claims.subtract((pod.namespace, claim) for claim in pod.claims)
        self._claims = +self._claims
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]

    def copy(self) -> ScheduledPods:
        """Return the same pods, to leave some of them out."""
        other = ScheduledPods()
        other._pods = dict(self._pods)
        other._on = {node: dict(pods) for node, pods in self._on.items()}
        other._units = {unit: dict(pods) for unit, pods in self._units.items()}
        other._sorts = {sort: (pod, nodes.copy()) for sort, (pod, nodes) in self._sorts.items()}
        other._wishes = {wish: nodes.copy() for wish, nodes in self._wishes.items()}
        other._priorities = self._priorities.copy()
        other._claims = self._claims.copy()
        return other

    def use(self, namespace: str, claim: str) -> bool:
        """Return whether any pod mounts a claim."""
        return self._claims[namespace, claim] > 0

    def on(self, node: str) -> list[ScheduledPod]:
        """Return the pods on a node."""
        return list(self._on.get(node, {}).values())

    def of(self, unit: Unit) -> list[ScheduledPod]:
        """Return the pods of a unit that have a node."""
        return list(self._units.get(unit, {}).values())

    def units(self) -> Iterator[list[ScheduledPod]]:
        """Yield the pods of each unit."""
        for pods in self._units.values():
            yield list(pods.values())

    def lowest_priority(self) -> int | None:
        """Return the priority of the least important pod, None where there are no pods."""
        return min(self._priorities, default=None)

    def matching(self, selects: Callable[[ScheduledPod], bool]) -> _OnNodes:
        """Return how many pods are selected on each node. Only namespace, labels and end are to be looked at."""
        total: _OnNodes = Counter()
        for pod, nodes in self._sorts.values():
            if selects(pod):
                total.update(nodes)
        return total

    def wished(self) -> Iterator[tuple[Wish, _OnNodes]]:
        """Yield what placed pods wish of pods beside them, and how many on each node do."""
        yield from self._wishes.items()


def _sort(pod: ScheduledPod) -> _Sort:
    return _Sort(pod.namespace, frozenset(pod.labels.items()), pod.terminating)


def _drop(groups: dict[object, dict[str, ScheduledPod]], key: object, uid: str) -> None:
    del groups[key][uid]
    if not groups[key]:
        del groups[key]


def _less(nodes: _OnNodes, node: str) -> bool:
    """Count one less on the node; return whether that was the last one of all."""
    nodes[node] -= 1
    if not nodes[node]:
        del nodes[node]
    return not nodes
