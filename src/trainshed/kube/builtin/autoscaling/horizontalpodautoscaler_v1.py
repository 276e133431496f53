"""HorizontalPodAutoscalers in the shape of autoscaling/v1, which `kubectl autoscale` creates up to 1.32.

Source of the shape: the conversion functions of the Kubernetes API (`pkg/apis/autoscaling`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts import autoscalers
from trainshed.kube.builtin.parts.autoscalers import autoscaler_causes, autoscaler_defaults
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS, Resource

_CPU = "targetCPUUtilizationPercentage"
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


class _View:
    """v1 knows one metric, CPU utilisation; the rest travels in annotations so that nothing is lost."""

    def to_storage(self, obj: Object) -> Object:
        spec = dict(spec_of(obj))
        target = spec.pop(_CPU, None)
        metadata = dict(metadata_of(obj))
        annotations = dict(section(metadata, "annotations"))
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
        status = dict(status_of(obj))
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
        spec = dict(spec_of(obj))
        metadata = dict(metadata_of(obj))
        annotations = dict(section(metadata, "annotations"))
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
                current = section(metric or {}, "resource", "current")
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
    resource = section(metric, "resource")
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found = section(resource, "target").get("averageUtilization")
    return found if isinstance(found, int) else None


KIND = Builtin(
    info=row(
        Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        "hpa",
        categories=ALL,
        subresources=STATUS,
        view_of=HORIZONTALPODAUTOSCALERS,
    ),
    does="replicas by the CPU and memory that pods use",
    lacks="CPU and memory only",
    view=_View(),
    defaults=autoscaler_defaults,
    check=autoscaler_causes,
    columns=autoscalers.COLUMNS,
)
