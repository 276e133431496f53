"""Rules of the metrics and the behavior of a HorizontalPodAutoscaler.

Source of rules and texts: `pkg/apis/autoscaling/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.pod.resources import resource_name_causes
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.quantity import parse

_SOURCES = ("Object", "External", "Pods", "Resource", "ContainerResource")
_TARGETS = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800


def scaled_causes(reference: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with kind and name of another object."""
    for field in ("kind", "name"):
        if not reference.get(field):
            yield causes.required(f"{at}.{field}")
            continue
        for why in names.path_segment(reference[field]):
            yield causes.invalid(f"{at}.{field}", reference[field], why)


def metric_causes(metric: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with one of the metrics."""
    kind = metric.get("type") or ""
    if not kind:
        yield causes.required(f"{at}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield from (causes.unsupported(f"{at}.type", kind, sorted(_SOURCES)),) * 2  # upstream finds it twice
    present = [source for source in _SOURCES if metric.get(_field(source)) is not None]
    if present:
        field = _field(present[0])
        yield from _source(present[0], section(metric, field), f"{at}.{field}")
    if kind in _SOURCES and kind not in present:
        text = "must populate information for the given metric source"
        yield causes.required(f"{at}.{_field(kind)}", text)
    if len(present) != 1:
        for source in present:
            if source != kind:
                yield causes.forbidden(f"{at}.{_field(source)}", "must populate the given metric source only")


def _field(source: str) -> str:
    return source[:1].lower() + source[1:]


def _source(kind: str, source: Object, at: str) -> Iterator[Cause]:
    target = section(source, "target")
    if kind == "Object":
        yield from scaled_causes(section(source, "describedObject"), f"{at}.describedObject")
    if kind in ("Resource", "ContainerResource"):
        if not source.get("name"):
            yield causes.required(f"{at}.name", "must specify a resource name")
        else:
            yield from resource_name_causes(source["name"], f"{at}.name")
        if kind == "ContainerResource" and not source.get("container"):
            yield causes.required(f"{at}.container", "must specify a container")
        elif kind == "ContainerResource":
            for why in names.dns_label(source["container"]):
                yield causes.invalid(f"{at}.container", source["container"], why)
    else:
        yield from _identifier(section(source, "metric"), f"{at}.metric")
    yield from _target(target, f"{at}.target")
    value, average, share = (target.get(key) for key in ("value", "averageValue", "averageUtilization"))
    if kind == "Object" and value is None and average is None:
        yield causes.required(f"{at}.target.averageValue", "must set either a target value or averageValue")
    elif kind == "Pods" and (average is None or parse(average) <= 0):
        yield causes.required(f"{at}.target.averageValue", "must specify a positive target averageValue")
    elif kind == "External" and value is None and average is None:
        text = "must set either a target value for metric or a per-pod target"
        yield causes.required(f"{at}.target.averageValue", text)
    elif kind == "External" and value is not None and average is not None:
        text = "may not set both a target value for metric and a per-pod target"
        yield causes.forbidden(f"{at}.target.value", text)
    elif kind.endswith("Resource") and share is None and average is None:
        text = "must set either a target raw value or a target utilization"
        yield causes.required(f"{at}.target.averageUtilization", text)
    elif kind.endswith("Resource") and share is not None and average is not None:
        text = "may not set both a target raw value and a target utilization"
        yield causes.forbidden(f"{at}.target.averageValue", text)


def _identifier(metric: Object, at: str) -> Iterator[Cause]:
    if not metric.get("name"):
        yield causes.required(f"{at}.name", "must specify a metric name")
        return
    for why in names.path_segment(metric["name"]):
        yield causes.invalid(f"{at}.name", metric["name"], why)


def _target(target: Object, at: str) -> Iterator[Cause]:
    kind = target.get("type") or ""
    if not kind:
        yield causes.required(f"{at}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield causes.invalid(f"{at}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and parse(target[field]) <= 0:
            yield causes.invalid_shown(f"{at}.{field}", golang.quantity(target[field]), "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield causes.invalid(f"{at}.averageUtilization", share, "must be greater than 0")


def behavior_causes(behavior: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with how fast replicas may come and go."""
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            yield from _rules(behavior[direction], f"{at}.{direction}")


def _rules(rules: Object, at: str) -> Iterator[Cause]:
    window: Any = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield causes.invalid(
            f"{at}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield causes.invalid(f"{at}.stabilizationWindowSeconds", window, text)
    if rules["selectPolicy"] not in ("Disabled", "Max", "Min"):
        yield causes.unsupported(f"{at}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules["policies"]:
        yield causes.required(f"{at}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules["policies"]):
        where = f"{at}.policies[{index}]"
        if policy.get("type") not in ("Percent", "Pods"):
            yield causes.unsupported(f"{where}.type", policy.get("type") or "", ("Percent", "Pods"))
        for field in ("value", "periodSeconds"):
            number = policy.get(field) or 0
            if number <= 0:
                yield causes.invalid(f"{where}.{field}", number, "must be greater than zero")
            if field == "periodSeconds" and number > _LONGEST_PERIOD:
                text = f"must be less than or equal to {_LONGEST_PERIOD}"
                yield causes.invalid(f"{where}.{field}", number, text)
