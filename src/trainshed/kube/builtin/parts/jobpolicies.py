"""Rules of a job's podFailurePolicy and successPolicy.

Source of rules and texts: `pkg/apis/batch/validation` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, objects, section

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_MOST_RULES = 20
_MOST_CODES = 255
_INDEXES = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")


def pod_failure_policy_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with `podFailurePolicy` of a job's spec."""
    if spec.get("podFailurePolicy") is None:
        return
    at = f"{path}.podFailurePolicy.rules"
    rules = objects(section(spec, "podFailurePolicy"), "rules")
    if len(rules) > _MOST_RULES:
        yield causes.too_many(at, len(rules), _MOST_RULES)
    pod = section(spec, "template", "spec")
    names = {c.get("name") for field in ("containers", "initContainers") for c in objects(pod, field)}
    for index, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, f"{at}[{index}]", names)


def _failure_rule(spec: Object, rule: Object, at: str, names: set[object]) -> Iterator[Cause]:
    action = rule.get("action")
    if not action:
        yield causes.required(f"{at}.action", f"valid values: {', '.join(map(causes.shown, _ACTIONS))}")
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
        yield from _exit_codes(section(rule, "onExitCodes"), f"{at}.onExitCodes", names)
    for number, pattern in enumerate(patterns):
        where = f"{at}.onPodConditions[{number}]"
        if not pattern.get("type"):
            yield causes.required(f"{where}.type")
        yield from causes.one_of(pattern, where, "status", ("False", "True", "Unknown"))


def _exit_codes(codes: Object, at: str, names: set[object]) -> Iterator[Cause]:
    operator, values = codes.get("operator"), list(codes.get("values") or ())
    if not operator:
        yield causes.required(f"{at}.operator", 'valid values: "In", "NotIn"')
    else:
        yield from causes.one_of(codes, at, "operator", ("In", "NotIn"))
    only = codes.get("containerName")
    if only is not None and only not in names:
        text = "must be one of the container or initContainer names in the pod template"
        yield causes.invalid(f"{at}.containerName", only, text)
    if not values:
        yield causes.invalid(f"{at}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield causes.too_many(f"{at}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if value in values[:index]:
            yield causes.duplicate(f"{at}.values[{index}]", value)
        if operator == "In" and value == 0:
            yield causes.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator")
    if values != sorted(values):
        yield causes.invalid(f"{at}.values", values, "must be ordered")


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
            yield causes.invalid(f"{at}.succeededIndexes", indexes, why)
            return
    if count is None:
        return
    where = f"{at}.succeededCount"
    if count < 1:
        yield causes.invalid(where, count, "must be greater than 0")
    elif completions is not None and count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        yield causes.invalid(where, count, text)
    elif among is not None and count > among:
        text = f"must be less than or equal to {among} (the number of indexes in the specified succeededIndexes field)"
        yield causes.invalid(where, count, text)


def _listed(text: str, completions: int | None) -> tuple[int, str]:
    """Return how many indexes a list such as `0,2-4` has, and what is wrong with it."""
    if not _INDEXES.fullmatch(text):
        return 0, "error parsing succeededIndexes: must be a list of indexes and ranges such as 0,2-4"
    last, total = -1, 0
    for part in text.split(","):
        first, _, end = part.partition("-")
        low, high = int(first), int(end or first)
        if low <= last or high < low:
            return 0, f"non-increasing order, previous: {last}, current: {low if low <= last else high}"
        if completions is not None and high >= completions:
            return 0, f"too large index: {high}"
        total, last = total + high - low + 1, high
    return total, ""
