"""Rules of a job's podFailurePolicy and successPolicy.

Source of rules and texts: `pkg/apis/batch/validation` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, objects, section

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_MOST_RULES = 20
_MOST_CODES = 255
_NUMBER = re.compile(r"\+?[0-9]+", re.ASCII)
_MOST_OF_INT = 2**63 - 1


def pod_failure_policy_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with `podFailurePolicy` of a job's spec."""
    if spec.get("podFailurePolicy") is None:
        return
    at = f"{path}.podFailurePolicy.rules"
    rules = objects(section(spec, "podFailurePolicy"), "rules")
    if len(rules) > _MOST_RULES:
        yield causes.too_many(at, len(rules), _MOST_RULES)
    pod = section(spec, "template", "spec")
    known = {c.get("name") for field in ("containers", "initContainers") for c in objects(pod, field)}
    for index, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, f"{at}[{index}]", known)


def _failure_rule(spec: Object, rule: Object, at: str, known: set[object]) -> Iterator[Cause]:
    action = rule.get("action")
    if not action:
        yield causes.required(f"{at}.action", f"valid values: {_among(_ACTIONS)}")
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield causes.invalid(f"{at}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield causes.unsupported(f"{at}.action", action, _ACTIONS)
    codes, patterns = rule.get("onExitCodes"), objects(rule, "onPodConditions")
    if codes is not None and patterns:
        yield causes.invalid_text(at, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not patterns:
        yield causes.invalid_text(at, "specifying one of OnExitCodes and OnPodConditions is required")
    if codes is not None:
        yield from _exit_codes(section(rule, "onExitCodes"), f"{at}.onExitCodes", known)
    for number, pattern in enumerate(patterns):
        where = f"{at}.onPodConditions[{number}]"
        for why in names.qualified_name(pattern.get("type") or ""):
            yield causes.invalid(f"{where}.type", pattern.get("type") or "", why)
        yield from causes.one_of(pattern, where, "status", ("False", "True", "Unknown"))


def _exit_codes(codes: Object, at: str, known: set[object]) -> Iterator[Cause]:
    operator, values = codes.get("operator"), list(codes.get("values") or ())
    if not operator:
        yield causes.required(f"{at}.operator", f"valid values: {_among(_OPERATORS)}")
    else:
        yield from causes.one_of(codes, at, "operator", _OPERATORS)
    only = codes.get("containerName")
    if only is not None and only not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield causes.invalid(f"{at}.containerName", only, text)
    if not values:
        shown = "[]int32(nil)" if codes.get("values") is None else "[]int32{}"
        yield causes.invalid_shown(f"{at}.values", shown, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield causes.too_many(f"{at}.values", len(values), _MOST_CODES)
    again = repeated(values)
    for index, value in enumerate(values):
        if index in again:
            yield causes.duplicate(f"{at}.values[{index}]", value)
        if operator == "In" and value == 0:
            yield causes.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator")
    if values != sorted(values):
        shown = f"[]int32{{{', '.join(map(str, values))}}}"
        yield causes.invalid_shown(f"{at}.values", shown, "must be ordered")


def success_policy_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with `successPolicy` of the spec of an Indexed job."""
    at = f"{path}.successPolicy.rules"
    rules = objects(section(spec, "successPolicy"), "rules")
    if not rules:
        yield causes.required(at, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield causes.too_many(at, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(spec, rule, f"{at}[{index}]")


def _success_rule(spec: Object, rule: Object, at: str) -> Iterator[Cause]:
    indexes, count, completions = (
        rule.get("succeededIndexes"),
        rule.get("succeededCount"),
        spec.get("completions"),
    )
    if indexes is None and count is None:
        yield causes.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    among = None
    if indexes is not None:
        among, why = _listed(str(indexes), completions)
        if why:
            yield causes.invalid(f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {why}")
    if count is None:
        return
    where = f"{at}.succeededCount"
    if count < 1:
        yield causes.invalid(where, count, "must be greater than 0")
    if completions is not None and count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield causes.invalid(where, count, text)
    if among is not None and count > among:
        text = f"must be less than or equal to {among} (the number of indexes in the specified succeededIndexes field)"
        yield causes.invalid(where, count, text)


def _listed(text: str, completions: int | None) -> tuple[int, str]:
    """Return how many indexes a list such as `0,2-4` has, and what is wrong with it."""
    previous, total = None, 0
    for interval in text.split(",") if text else ():
        limits = interval.split("-")
        if len(limits) > 2:
            why = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            return 0, f'the fragment "{interval}" {why}'
        for limit in limits:
            if not _NUMBER.fullmatch(limit) or int(limit) > _MOST_OF_INT:
                return 0, f'cannot convert string to integer for index: "{limit}"'
            index = int(limit)
            if completions is not None and index >= completions:
                return 0, f'too large index: "{limit}"'
            if previous is not None and previous >= index:
                return 0, f"non-increasing order, previous: {previous}, current: {index}"
            previous = index
        total += int(limits[-1]) - int(limits[0]) + 1
    return total, ""


def _among(values: tuple[str, ...]) -> str:
    return f"[{' '.join(map(causes.shown, values))}]"
