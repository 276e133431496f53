"""Which requests a webhook or a policy is for: what is wrong with its rules, and with its match conditions.

Source: `pkg/apis/admissionregistration/validation` of Kubernetes; texts as recorded from 1.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, objects

if TYPE_CHECKING:
    from trainshed.kube.cel.types import Type

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS = 64


def rule_causes(rules: Sequence[Object], at: str) -> Iterator[Cause]:
    """Yield what is wrong with rules at the path `at`."""
    for index, rule in enumerate(rules):
        path = f"{at}[{index}]"
        operations = list(rule.get("operations") or ())
        yield from _some(operations, f"{path}.operations")
        kind = "admissionregistration.OperationType"
        yield from _alone(operations, f"{path}.operations", "operations", kind)
        for number, operation in enumerate(operations):
            if operation not in _OPERATIONS:
                yield causes.unsupported(f"{path}.operations[{number}]", operation, _OPERATIONS)
        for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
            values = list(rule.get(field) or ())
            yield from _some(values, f"{path}.{field}")
            yield from _alone(values, f"{path}.{field}", what)
            if field == "apiVersions":
                yield from _blank(values, f"{path}.{field}")
        yield from _resources(list(rule.get("resources") or ()), f"{path}.resources")
        if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
            yield causes.unsupported(f"{path}.scope", rule["scope"], _SCOPES)
        yield from _names(list(rule.get("resourceNames") or ()), f"{path}.resourceNames")


def _names(given: list[str], at: str) -> Iterator[Cause]:
    again = repeated(given)
    for number, name in enumerate(given):
        for why in names.path_segment(name):
            yield causes.invalid(f"{at}[{number}]", name, why)
        if number in again:
            yield causes.duplicate(f"{at}[{number}]", name)


def _some(values: list[str], at: str) -> Iterator[Cause]:
    if not values:
        yield causes.required(at)


def _blank(values: list[str], at: str) -> Iterator[Cause]:
    for number, value in enumerate(values):
        if not value:
            yield causes.required(f"{at}[{number}]")


def _alone(values: list[str], at: str, what: str, kind: str = "string") -> Iterator[Cause]:
    if len(values) > 1 and "*" in values:
        why = f"if '*' is present, must not specify other {what}"
        yield causes.invalid_shown(at, golang.text_list(values, kind), why)


def _resources(resources: list[str], at: str) -> Iterator[Cause]:
    yield from _some(resources, at)
    yield from _blank(resources, at)
    all_subresources_of: set[str] = set()
    of_all_resources: set[str] = set()
    for number, named in enumerate(resources):
        plural, slash, sub = named.partition("/")
        if not slash:
            continue
        if plural in all_subresources_of:
            why = f"if '{plural}/*' is present, must not specify {named}"
            yield causes.invalid(f"{at}[{number}]", named, why)
        if sub in of_all_resources:
            why = f"if '*/{sub}' is present, must not specify {named}"
            yield causes.invalid(f"{at}[{number}]", named, why)
        if sub == "*":
            all_subresources_of.add(plural)
        if plural == "*":
            of_all_resources.add(sub)
    shown = golang.text_list(resources)
    if len(resources) > 1 and "*/*" in resources:
        why = "if '*/*' is present, must not specify other resources"
        yield causes.invalid_shown(at, shown, why)
    if "*" in resources and any(named and "/" not in named and named != "*" for named in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield causes.invalid_shown(at, shown, why)


def condition_list_causes(owner: Object, at: str, variables: Mapping[str, Type]) -> Iterator[Cause]:
    """Yield what is wrong with the `matchConditions` of `owner`, whose expressions see `variables`."""
    from trainshed.kube.cel.admission import (
        expression_type,
    )  # the language is loaded with the first expression

    conditions, named = objects(owner, "matchConditions"), set[str]()
    if len(conditions) > _MOST_CONDITIONS:
        yield causes.too_many(at, len(conditions), _MOST_CONDITIONS)
        return
    for index, condition in enumerate(conditions):
        expression, name = str(condition.get("expression") or ""), str(condition.get("name") or "")
        if expression.strip():
            yield from expression_type(expression, f"{at}[{index}].expression", variables, ("bool",))[0]
        else:
            yield causes.required(f"{at}[{index}].expression")
        if not name:
            yield causes.required(f"{at}[{index}].name")
        elif name in named:
            yield causes.duplicate(f"{at}[{index}].name", name)
        else:
            for why in names.qualified_name(name):
                yield causes.invalid(f"{at}[{index}].name", name, why)
        named.add(name)
