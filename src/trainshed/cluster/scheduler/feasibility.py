"""Whether a pod may go to a node, by all rules together. Pure.

As kube-scheduler does, the first sort of rule that a node does not meet is the one that is told: the node itself, then
snapshot, then the pods that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.affinityterms import rules_of
from trainshed.cluster.scheduler.interpodaffinity import (
    INDIFFERENT,
    NOT_APART,
    NOT_WANTED,
    Affinities,
    affinities,
)
from trainshed.cluster.scheduler.predicates import (
    INSUFFICIENT,
    NO_FREE_PORTS,
    TOO_MANY_PODS,
    allocatable,
    rules_unmet,
    short,
)
from trainshed.cluster.scheduler.requests import is_host_port, pod_needs
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.cluster.scheduler.topologyspread import ANYWHERE, TOO_MANY, Spread, selector_of, spread
from trainshed.kube.meta.objects import Object, labels_of, namespace_of, spec_of
from trainshed.kube.meta.pods import claim_names

IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
_CROWDED = (NO_FREE_PORTS, TOO_MANY_PODS, TOO_MANY, NOT_APART, NOT_WANTED, IN_USE)
_ZERO = Decimal(0)


class Wanted(msgspec.Struct, frozen=True):
    """What a pod wants of a node, and what the pods that are there make of it.

    `in_use`: another pod has a claim of this one's that is for one pod only.
    """

    pod: Object
    needs: Mapping[str, Decimal]
    affinities: Affinities = INDIFFERENT
    spread: Spread = ANYWHERE
    in_use: bool = False

    @property
    def looks_at_pods(self) -> bool:
        """Whether the pods that have a node matter beyond the room that they take."""
        return self.in_use or self.affinities is not INDIFFERENT or self.spread is not ANYWHERE

    def unmet(self, node: Object, used: Mapping[str, Decimal]) -> list[str]:
        """Return why the pod may not go to the node, on which so much is in use; empty where it may."""
        if problems := rules_unmet(self.pod, node)[:1] or short(self.needs, node, used):
            return problems
        if self.in_use:
            return [IN_USE]
        if not self.looks_at_pods:
            return []
        labels = labels_of(node)
        problem = self.spread.unmet(labels) or self.affinities.unmet(labels)
        return [problem] if problem else []

    def is_helped(self, node: Object, problems: list[str]) -> bool:
        """Return whether fewer pods could change what keeps the pod off the node."""
        offered = allocatable(node)
        lasting = [(name, amount) for name, amount in self.needs.items() if amount and not is_host_port(name)]
        if any(amount > offered.get(name, _ZERO) for name, amount in lasting):
            return False
        return all(problem in _CROWDED or problem.startswith(INSUFFICIENT) for problem in problems)


def is_helped_by(pod: Object, other: ScheduledPod, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether a pod that waits may have a place since the other one has got its own."""
    if any(term.selects(other.namespace, other.labels, namespaces) for term in rules_of(pod).beside):
        return True
    return other.namespace == namespace_of(pod) and any(
        selector_of(pod, constraint).matches(other.labels)
        for constraint in spec_of(pod).get("topologySpreadConstraints") or ()
    )


def wanted(pod: Object, snapshot: Snapshot) -> Wanted:
    """Return what the pod wants, in the snapshot as it is."""
    taken = _in_use(pod, snapshot)
    return Wanted(pod, pod_needs(pod), affinities(pod, snapshot), spread(pod, snapshot), taken)


def _in_use(pod: Object, snapshot: Snapshot) -> bool:
    namespace = namespace_of(pod)
    for name in claim_names(pod):
        claim = snapshot.claims.get((namespace, name), {})
        if "ReadWriteOncePod" in (spec_of(claim).get("accessModes") or ()) and snapshot.scheduled.use(
            namespace, name
        ):
            return True
    return False
