"""Topology spread constraints: in which domains there are too many pods already. Pure.

Source: core/v1 TopologySpreadConstraint, and "Pod Topology Spread Constraints" in the Kubernetes documentation. Texts
and scores are those of kube-scheduler's PodTopologySpread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.cluster.scheduler.affinityterms import with_label_keys
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.nodeselection import is_selected, tolerated
from trainshed.kube.meta.objects import Object, labels_of, namespace_of, spec_of
from trainshed.kube.meta.selectors import LabelSelector

MISSING_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
TOO_MANY = "node(s) didn't match pod topology spread constraints"
_HARD = "DoNotSchedule"


class Constraint(msgspec.Struct, frozen=True):
    """One constraint and what it counted: the pods in each domain that counts, the least of them in any.

    `itself`: the pod counts once it is there.
    """

    key: str
    max_skew: int
    counts: Mapping[str, int]
    least: int
    itself: bool

    def allows(self, value: str) -> bool:
        """Return whether a domain takes one pod more."""
        return self.counts.get(value, 0) + self.itself - self.least <= self.max_skew


class Spread(msgspec.Struct, frozen=True):
    """The constraints that must hold, and those that should."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()

    def unmet(self, labels: Mapping[str, str]) -> str:
        """Return why the pod may not go to a node with these labels, or nothing."""
        for constraint in self.hard:
            value = labels.get(constraint.key)
            if value is None:
                return MISSING_LABEL
            if not constraint.allows(value):
                return TOO_MANY
        return ""

    def crowd(self, labels: Mapping[str, str]) -> float | None:
        """Return how full of such pods a node's domains are, the less the better; None where labels are missing."""
        total = 0.0
        for constraint in self.soft:
            value = labels.get(constraint.key)
            if value is None:
                return None
            weight = math.log(len(constraint.counts) + 2)
            total += constraint.counts.get(value, 0) * weight + constraint.max_skew - 1
        return total


ANYWHERE = Spread()


def spread(pod: Object, snapshot: Snapshot) -> Spread:
    """Return what the pod's constraints say."""
    constraints: Sequence[Object] = spec_of(pod).get("topologySpreadConstraints") or ()
    if not constraints:
        return ANYWHERE
    hard = [each for each in constraints if each.get("whenUnsatisfiable", _HARD) == _HARD]
    soft = [each for each in constraints if each.get("whenUnsatisfiable", _HARD) != _HARD]
    return Spread(_together(pod, hard, snapshot), _together(pod, soft, snapshot))


def selector_of(pod: Object, constraint: Mapping[str, Any]) -> LabelSelector:
    """Return which pods of its namespace a constraint counts."""
    selector = LabelSelector.from_object(constraint.get("labelSelector"))
    return with_label_keys(selector, labels_of(pod), constraint.get("matchLabelKeys") or ())


def _together(pod: Object, constraints: Sequence[Object], snapshot: Snapshot) -> tuple[Constraint, ...]:
    """Return what constraints say that hold together: a node counts that has the labels of all."""
    keys = {each["topologyKey"] for each in constraints}
    nodes = [node for node in snapshot.nodes if keys <= labels_of(node).keys()]
    return tuple(_counted(pod, each, _domains(pod, each, nodes), snapshot) for each in constraints)


def _domains(pod: Object, constraint: Object, nodes: Sequence[Object]) -> dict[str, str]:
    """Return the domain of each of the `nodes` that the pod may be meant for."""
    tolerations = spec_of(pod).get("tolerations") or ()
    by_affinity = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
    by_taints = constraint.get("nodeTaintsPolicy", "Ignore") == "Honor"
    out = {}
    for node in nodes:
        if by_affinity and not is_selected(pod, node):
            continue
        if by_taints and not all(
            tolerated(taint, tolerations)
            for taint in spec_of(node).get("taints") or ()
            if taint.get("effect") in ("NoSchedule", "NoExecute")
        ):
            continue
        out[node["metadata"]["name"]] = labels_of(node)[constraint["topologyKey"]]
    return out


def _counted(pod: Object, constraint: Object, domains: Mapping[str, str], snapshot: Snapshot) -> Constraint:
    selector, namespace = selector_of(pod, constraint), namespace_of(pod)

    def selects(other: ScheduledPod) -> bool:
        return other.namespace == namespace and not other.terminating and selector.matches(other.labels)

    counts = Counter(dict.fromkeys(domains.values(), 0))
    for node, count in snapshot.scheduled.matching(selects).items() if domains else ():
        if node in domains:
            counts[domains[node]] += count
    enough = len(counts) >= int(constraint.get("minDomains") or 1)
    return Constraint(
        key=constraint["topologyKey"],
        max_skew=int(constraint.get("maxSkew") or 1),
        counts=counts,
        least=min(counts.values(), default=0) if enough else 0,
        itself=selector.matches(labels_of(pod)),
    )
