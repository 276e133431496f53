"""Which nodes a pod asks for and may go to: selector, required node affinity, taints and tolerations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainshed.kube.meta.objects import Object, section, spec_of


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of the tolerations covers the taint (core/v1 Toleration)."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator", "Equal") == "Exists":
            return True
        if toleration.get("key") and toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def is_selected(pod: Object, node: Object) -> bool:
    """Return whether the node is one that the pod's selector and required node affinity ask for."""
    spec = spec_of(pod)
    if not spec.get("nodeSelector") and not spec.get("affinity"):
        return True
    labels: Mapping[str, str] = section(node["metadata"], "labels")
    wanted = section(spec, "nodeSelector")
    affinity = section(spec, "affinity", "nodeAffinity")
    required = section(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    terms: Sequence[Mapping[str, Any]] = required.get("nodeSelectorTerms") or ()
    matches_terms = not terms or any(matches_term(term, node) for term in terms)
    return matches_terms and all(labels.get(key) == value for key, value in wanted.items())


def preference(pod: Object, node: Object) -> int:
    """Return the sum of the weights of those preferred terms of node affinity that the node meets."""
    terms = section(spec_of(pod), "affinity", "nodeAffinity").get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    )
    return sum(int(term["weight"]) for term in terms or () if matches_term(section(term, "preference"), node))


def matches_term(term: Mapping[str, Any], node: Object) -> bool:
    """Return whether the node meets a NodeSelectorTerm; one without any expression matches nothing."""
    labels: Mapping[str, str] = section(node["metadata"], "labels")
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions, of_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not of_fields:
        return False
    return all(_expression(e, labels) for e in expressions) and all(_expression(e, fields) for e in of_fields)


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    values: Sequence[str] = expression.get("values") or ()
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                have, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
        case _:
            return False
