"""Kinds served in two shapes over the same stored objects.

    events.k8s.io/v1 Event           over core/v1 Event
    autoscaling/v1 HorizontalPodAutoscaler   over autoscaling/v2

Source: the conversion functions of the Kubernetes API (`pkg/apis/core`, `pkg/apis/autoscaling`), as fields.
"""

from __future__ import annotations

from typing import Any, Protocol

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo


class Converter(Protocol):
    """Both directions; neither changes its argument."""

    def to_storage(self, obj: Object) -> Object: ...
    def from_storage(self, obj: Object) -> Object: ...


def converter(info: ResourceInfo) -> Converter | None:
    """Return how a view translates, or None for a resource in its stored shape."""
    if info.view_of is None:
        return None
    return _CONVERTERS.get((info.resource.group, info.resource.version, info.resource.plural))


def _renamed(obj: Object, names: tuple[tuple[str, str], ...]) -> Object:
    table = dict(names)
    return {table.get(key, key): value for key, value in obj.items()}


class _Events:
    """`regarding` is `involvedObject`, `note` is `message`, what is deprecated keeps its old name inside."""

    _NAMES = (
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    )
    _BACK = tuple((stored, shown) for shown, stored in _NAMES)

    def to_storage(self, obj: Object) -> Object:
        return _renamed(obj, self._NAMES)

    def from_storage(self, obj: Object) -> Object:
        out = _renamed(obj, self._BACK)
        out.setdefault("eventTime", None)
        return out


_CPU = "targetCPUUtilizationPercentage"
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


class _Autoscalers:
    """v1 knows one metric, CPU utilisation; the rest travels in annotations so that nothing is lost."""

    def to_storage(self, obj: Object) -> Object:
        import msgspec

        spec = dict(obj.get("spec") or {})
        target = spec.pop(_CPU, None)
        metadata = dict(obj.get("metadata") or {})
        annotations = dict(metadata.get("annotations") or {})
        metrics: list[Any] = []
        if target is not None:
            metrics.append(_cpu_metric(target))
        others = annotations.pop(_METRICS, None)
        behavior = annotations.pop(_BEHAVIOR, None)
        try:
            metrics += msgspec.json.decode(others, type=list[Any]) if others else []
            if behavior:
                spec["behavior"] = msgspec.json.decode(behavior)
        except msgspec.DecodeError:
            pass  # somebody else's annotation under our name: drop it, as upstream
        if metrics:
            spec["metrics"] = metrics
        if "annotations" in metadata:
            metadata["annotations"] = annotations
        out = {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}
        status = dict(obj.get("status") or {})
        current = status.pop("currentCPUUtilizationPercentage", None)
        if current is not None:
            status["currentMetrics"] = [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageUtilization": current}},
                }
            ]
        if status:
            status.setdefault("currentReplicas", 0)
            out["status"] = status
        return out

    def from_storage(self, obj: Object) -> Object:
        import msgspec

        spec = dict(obj.get("spec") or {})
        metadata = dict(obj.get("metadata") or {})
        annotations = dict(metadata.get("annotations") or {})
        others = []
        for metric in spec.pop("metrics", None) or ():
            target = _cpu_target(metric)
            if target is not None and _CPU not in spec:
                spec[_CPU] = target
            else:
                others.append(metric)
        if others:
            annotations[_METRICS] = msgspec.json.encode(others).decode()
        behavior = spec.pop("behavior", None)
        if behavior:
            annotations[_BEHAVIOR] = msgspec.json.encode(behavior).decode()
        if annotations:
            metadata["annotations"] = annotations
        out = {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec}
        status = obj.get("status")
        if status is not None:
            shown = {
                key: status[key]
                for key in ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
                if key in status
            }
            shown.setdefault("currentReplicas", 0)
            shown.setdefault("desiredReplicas", 0)
            for metric in status.get("currentMetrics") or ():
                current = ((metric or {}).get("resource") or {}).get("current") or {}
                if "averageUtilization" in current:
                    shown["currentCPUUtilizationPercentage"] = current["averageUtilization"]
            out["status"] = shown
        return out


def _cpu_metric(target: int) -> Object:
    return {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}},
    }


def _cpu_target(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found = (resource.get("target") or {}).get("averageUtilization")
    return found if isinstance(found, int) else None


_CONVERTERS: dict[tuple[str, str, str], Converter] = {
    ("events.k8s.io", "v1", "events"): _Events(),
    ("autoscaling", "v1", "horizontalpodautoscalers"): _Autoscalers(),
}
