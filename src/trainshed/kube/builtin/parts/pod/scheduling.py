"""Rules of the fields that say where a pod may run: selectors, affinity, tolerations, spreading.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.schema.metadata import key_causes, labels_causes, requirement_causes, selector_causes

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def scheduling_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the scheduling fields of a pod spec."""
    if spec.get("nodeSelector"):
        yield from labels_causes(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("tolerations"):
        yield from toleration_causes(spec["tolerations"], f"{path}.tolerations")
    affinity = section(spec, "affinity")
    if affinity.get("nodeAffinity"):
        yield from _node_affinity(affinity["nodeAffinity"], f"{path}.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            yield from _pod_affinity(affinity[kind], f"{path}.affinity.{kind}")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread(constraint, f"{path}.topologySpreadConstraints[{index}]")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        at = f"{path}.schedulingGates[{index}]"
        name = gate.get("name") or ""
        for why in names.qualified_name(name):
            yield causes.invalid(at, name, why)
        if name in seen:
            yield causes.duplicate(at, name)
        seen.add(name)


def toleration_causes(tolerations: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a list of tolerations."""
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        get = toleration.get
        key, operator, effect = get("key"), get("operator") or "Equal", get("effect")
        if key:
            for why in names.qualified_name(key):
                yield causes.invalid(f"{at}.key", key, why)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield causes.invalid(f"{at}.operator", get("operator") or "", text)
        if get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield causes.invalid(f"{at}.effect", effect or "", text)
        if operator == "Equal":
            for why in names.label_value(get("value") or ""):
                yield causes.invalid(f"{at}.operator", get("value"), why)
        elif operator == "Exists":
            if get("value"):
                text = "value must be empty when `operator` is 'Exists'"
                yield causes.invalid(f"{at}.operator", get("value"), text)
        else:
            yield causes.unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in TAINT_EFFECTS:
            yield causes.unsupported(f"{at}.effect", effect, TAINT_EFFECTS)


def _node_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        yield from node_selector_causes(required, at)
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(term, at)
        yield from _node_term(section(term, "preference"), f"{at}.preference")


def node_selector_causes(selector: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a NodeSelector, whose terms are at `path`."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield causes.required(path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}[{index}]")


def _node_term(term: Object, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        if rule.get("operator") not in ("Gt", "Lt"):
            yield from requirement_causes(rule, at)
            continue
        if len(rule.get("values") or ()) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield causes.required(f"{at}.values", text)
        yield from key_causes(rule, at)
    for index, rule in enumerate(term.get("matchFields") or ()):
        at = f"{path}.matchFields[{index}]"
        if rule.get("key") != "metadata.name":
            yield causes.invalid(f"{at}.key", rule.get("key"), "not a valid field selector key")
        if rule.get("operator") not in ("In", "NotIn"):
            yield causes.invalid(
                f"{at}.operator", rule.get("operator") or "", "not a valid selector operator"
            )
        elif len(rule.get("values") or ()) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield causes.required(f"{at}.values", text)


def _weight(term: Object, path: str) -> Iterator[Cause]:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield causes.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for index, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _weight(weighted, at)
        yield from _pod_term(section(weighted, "podAffinityTerm"), f"{at}.podAffinityTerm")


def _pod_term(term: Object, path: str) -> Iterator[Cause]:
    yield from selector_causes(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_causes(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    key = term.get("topologyKey")
    if not key:
        yield causes.required(f"{path}.topologyKey", "can not be empty")
    else:
        for why in names.qualified_name(key):
            yield causes.invalid(f"{path}.topologyKey", key, why)


def _spread(constraint: Object, path: str) -> Iterator[Cause]:
    skew = constraint.get("maxSkew") or 0
    if skew <= 0:
        yield causes.invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield causes.required(f"{path}.topologyKey", "can not be empty")
    when = constraint.get("whenUnsatisfiable")
    if when not in ("DoNotSchedule", "ScheduleAnyway"):
        supported = ("DoNotSchedule", "ScheduleAnyway")
        yield causes.unsupported(f"{path}.whenUnsatisfiable", when or "", supported)
    yield from selector_causes(constraint.get("labelSelector"), f"{path}.labelSelector")
