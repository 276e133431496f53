"""Affinity and anti-affinity of pods: where the pods that are there let one come, and where it would rather be. Pure.

Texts and scores are those of kube-scheduler's InterPodAffinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from trainshed.cluster.scheduler.affinityterms import AffinityTerm, Rules, rules_of
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.objects import Object, labels_of, namespace_of

NOT_BESIDE = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
NOT_WANTED = "node(s) didn't satisfy existing pods anti-affinity rules"

_Domain: TypeAlias = tuple[str, str]
"""Key and value of a node label: all nodes that have it are beside each other."""


class Affinities(msgspec.Struct, frozen=True):
    """What the pod's own rules, and those of the pods that are there, say of each domain.

    `keys`: those that its required terms name. `beside`: domains with pods that it must be beside; `alone`: there are
    none of them anywhere, and it is such a pod itself. `apart`: domains that it must avoid. `forbidden`: domains whose
    pods do not want it. `scores`: what each domain is worth.
    """

    keys: tuple[str, ...] = ()
    beside: frozenset[_Domain] = frozenset()
    alone: bool = False
    apart: frozenset[_Domain] = frozenset()
    forbidden: frozenset[_Domain] = frozenset()
    scores: Mapping[_Domain, int] = {}

    def unmet(self, labels: Mapping[str, str]) -> str:
        """Return why the pod may not go to a node with these labels, or nothing."""
        if self.keys:
            if any(key not in labels for key in self.keys):
                return NOT_BESIDE
            if not self.alone and any((key, labels[key]) not in self.beside for key in self.keys):
                return NOT_BESIDE
        if not self.apart.isdisjoint(labels.items()):
            return NOT_APART
        return "" if self.forbidden.isdisjoint(labels.items()) else NOT_WANTED

    def score(self, labels: Mapping[str, str]) -> int:
        """Return what a node with these labels is worth."""
        return sum(score for (key, value), score in self.scores.items() if labels.get(key) == value)


INDIFFERENT = Affinities()


def affinities(pod: Object, snapshot: Snapshot) -> Affinities:
    """Return what affinities say of the pod; `INDIFFERENT` where they say nothing."""
    rules = rules_of(pod)
    namespace, labels = namespace_of(pod), labels_of(pod)
    about = [
        (wish, nodes)
        for wish, nodes in snapshot.scheduled.wished()
        if wish.term.selects(namespace, labels, snapshot.namespaces)
    ]
    if not about and rules == Rules():
        return INDIFFERENT
    where = snapshot.labels()
    forbidden: set[_Domain] = set()
    scores: Counter[_Domain] = Counter()
    for wish, nodes in about:
        found = _domains(wish.term.key, nodes, where)
        if wish.forbids:
            forbidden.update(found)
        else:
            for domain, count in found.items():
                scores[domain] += wish.weight * count
    for wish in rules.preferred:
        for domain, count in _domains(wish.term.key, _selected(snapshot, wish.term), where).items():
            scores[domain] += wish.weight * count
    apart = {
        domain for term in rules.apart for domain in _domains(term.key, _selected(snapshot, term), where)
    }
    all_of_them = _selected(snapshot, *rules.beside) if rules.beside else {}
    beside = {domain for term in rules.beside for domain in _domains(term.key, all_of_them, where)}
    itself = all(term.selects(namespace, labels, snapshot.namespaces) for term in rules.beside)
    return Affinities(
        keys=tuple(term.key for term in rules.beside),
        beside=frozenset(beside),
        alone=not beside and itself,
        apart=frozenset(apart),
        forbidden=frozenset(forbidden),
        scores={domain: score for domain, score in scores.items() if score},
    )


def _selected(snapshot: Snapshot, *terms: AffinityTerm) -> Mapping[str, int]:
    """Return how many pods on each node all the terms mean."""

    def selects(pod: ScheduledPod) -> bool:
        return all(term.selects(pod.namespace, pod.labels, snapshot.namespaces) for term in terms)

    return snapshot.scheduled.matching(selects)


def _domains(key: str, nodes: Mapping[str, int], labels: Mapping[str, Mapping[str, str]]) -> Counter[_Domain]:
    """Return how many pods are in each domain of a key, by how many are on each node."""
    found: Counter[_Domain] = Counter()
    for node, count in nodes.items():
        value = labels.get(node, {}).get(key)
        if value is not None:
            found[key, value] += count
    return found
