"""What both versions of the HorizontalPodAutoscaler share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.autoscalermetrics import behavior_causes, metric_causes, scaled_causes
from trainshed.kube.builtin.parts.columns import NONE, UNKNOWN, UNSET, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of


def autoscaler_defaults(obj: Object) -> None:
    """Fill in what both versions have."""
    setdefault(obj, "spec", {}).setdefault("minReplicas", 1)
    status = obj.setdefault("status", {})
    status.setdefault("desiredReplicas", 0)


def autoscaler_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a HorizontalPodAutoscaler."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield causes.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield causes.invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        yield causes.invalid("spec.maxReplicas", most, text)
    yield from scaled_causes(section(spec, "scaleTargetRef"), "spec.scaleTargetRef")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from metric_causes(metric, f"spec.metrics[{index}]")
    yield from behavior_causes(section(spec, "behavior"), "spec.behavior")


def autoscaler_warnings(obj: Object, old: Object | None) -> Iterator[str]:
    """Yield which metrics nobody serves here."""
    for index, metric in enumerate(spec_of(obj).get("metrics") or ()):
        if metric.get("type") not in ("Resource", "ContainerResource"):
            yield f"spec.metrics[{index}]: this cluster serves no custom or external metrics"


def _metric_target(metric: Object, current: Object) -> str:
    """Return one HPA metric as `cpu: 10%/80%`; the current value is `<unknown>` until one was measured."""
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source = section(metric, field)
    measured = section(current, field, "current")
    target = section(source, "target")
    label = source.get("name") or section(source, "metric").get("name") or ""
    if target.get("averageUtilization") is not None:
        now_text = measured.get("averageUtilization")
        text = f"{UNKNOWN if now_text is None else f'{now_text}%'}/{target['averageUtilization']}%"
    elif target.get("averageValue") is not None:
        text = f"{measured.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        if kind == "Object":
            text += " (avg)"
    else:
        text = f"{measured.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"
    return f"{label}: {text}" if kind in ("Resource", "ContainerResource") else text


def _hpa_targets(obj: Object) -> str:
    utilization = spec_of(obj).get("targetCPUUtilizationPercentage")  # autoscaling/v1
    if utilization is not None:
        current = status_of(obj).get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{utilization}%"
    metrics, currents = spec_of(obj).get("metrics") or [], status_of(obj).get("currentMetrics") or []
    if not metrics:
        return NONE
    texts = [
        _metric_target(metric, currents[index] if index < len(currents) else {})
        for index, metric in enumerate(metrics)
    ]
    return ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "")


def _row(obj: Object, now: float) -> list[Any]:
    target, least = section(obj, "spec", "scaleTargetRef"), spec_of(obj).get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _hpa_targets(obj),
        UNSET if least is None else str(least),
        spec_of(obj).get("maxReplicas", 0),
        status_of(obj).get("currentReplicas", 0),
        age(obj, now),
    ]


COLUMNS = Columns(define("Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"), _row)
