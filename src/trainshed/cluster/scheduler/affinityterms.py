"""What pods wish of the pods beside them: PodAffinityTerms as values. Pure.

Source: core/v1 PodAffinityTerm, and "Assigning Pods to Nodes" in the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, namespace_of, section, spec_of
from trainshed.kube.meta.selectors import LabelSelector, Requirement

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD_WEIGHT = 1
"""What a required affinity of a placed pod is worth to pods that it would like beside it (hardPodAffinityWeight)."""


class AffinityTerm(msgspec.Struct, frozen=True):
    """Which pods, in which namespaces, and what counts as beside them: the same value of the node label `key`.

    Namespaces are those listed and those that `among` selects.
    """

    key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    among: LabelSelector

    def selects(
        self, namespace: str, labels: Mapping[str, str], namespaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Return whether a pod is meant; `namespaces` are the labels of each."""
        if namespace not in self.namespaces and not self.among.matches(namespaces.get(namespace)):
            return False
        return self.selector.matches(labels)


class Wish(msgspec.Struct, frozen=True):
    """A term, and how much it is worth to have such pods beside: less than nothing for pods that shall stay away.

    `forbids`: such pods must not come beside.
    """

    term: AffinityTerm
    weight: int = 0
    forbids: bool = False


class Rules(msgspec.Struct, frozen=True):
    """What a pod requires and prefers of the pods beside it."""

    beside: tuple[AffinityTerm, ...] = ()
    apart: tuple[AffinityTerm, ...] = ()
    preferred: tuple[Wish, ...] = ()


NO_RULES = Rules()


def rules_of(pod: Object) -> Rules:
    """Return the pod's affinity and anti-affinity to pods."""
    affinity = section(spec_of(pod), "affinity")
    to, against = section(affinity, "podAffinity"), section(affinity, "podAntiAffinity")
    if not to and not against:
        return NO_RULES
    preferred = [
        Wish(_term(pod, section(each, "podAffinityTerm")), sign * int(each["weight"]))
        for rules, sign in ((to, 1), (against, -1))
        for each in rules.get(_PREFERRED) or ()
    ]
    return Rules(_terms(pod, to), _terms(pod, against), tuple(preferred))


def wishes(pod: Object) -> tuple[Wish, ...]:
    """Return what the pod, once it has a node, wishes of those that come."""
    rules = rules_of(pod)
    if rules is NO_RULES:
        return ()
    forbidden = [Wish(term, forbids=True) for term in rules.apart]
    return (*forbidden, *(Wish(term, HARD_WEIGHT) for term in rules.beside), *rules.preferred)


def with_label_keys(
    selector: LabelSelector, labels: Mapping[str, str], keys: Iterable[str], other_than: Iterable[str] = ()
) -> LabelSelector:
    """Return the selector for pods that also have the pod's own values of `keys`, and not those of `other_than`."""
    more = [Requirement(key, "in", (labels[key],)) for key in keys if key in labels]
    more += [Requirement(key, "notin", (labels[key],)) for key in other_than if key in labels]
    return LabelSelector((*selector.requirements, *more), selector.nothing) if more else selector


def _terms(pod: Object, rules: Object) -> tuple[AffinityTerm, ...]:
    return tuple(_term(pod, each) for each in rules.get(_REQUIRED) or ())


def _term(pod: Object, term: Mapping[str, Any]) -> AffinityTerm:
    among = term.get("namespaceSelector")
    listed = term.get("namespaces") or (() if among is not None else (namespace_of(pod),))
    selector = LabelSelector.from_object(term.get("labelSelector"))
    keys, other_than = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    return AffinityTerm(
        str(term.get("topologyKey") or ""),
        with_label_keys(selector, labels_of(pod), keys, other_than),
        frozenset(listed),
        LabelSelector.from_object(among),
    )
