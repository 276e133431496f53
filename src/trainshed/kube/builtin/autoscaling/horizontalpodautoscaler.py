"""HorizontalPodAutoscalers, in the shape in which they are stored."""

from __future__ import annotations

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts import autoscalers
from trainshed.kube.builtin.parts.autoscalers import (
    autoscaler_causes,
    autoscaler_defaults,
    autoscaler_warnings,
)
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS

_ALL_AT_ONCE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_POLICIES = {
    "scaleUp": ({"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_AT_ONCE),
    "scaleDown": (_ALL_AT_ONCE,),
}
"""Source: autoscaling/v2 HPAScalingRules."""


def _defaults(obj: Object) -> None:
    autoscaler_defaults(obj)
    obj["status"].setdefault("currentMetrics", None)
    spec = obj["spec"]
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for direction, policies in _POLICIES.items():
            rules = setdefault(behavior, direction, {})
            rules.setdefault("selectPolicy", "Max")
            if rules.get("policies") is None:
                rules["policies"] = [dict(policy) for policy in policies]
        behavior["scaleUp"].setdefault("stabilizationWindowSeconds", 0)


KIND = Builtin(
    info=row(HORIZONTALPODAUTOSCALERS, "hpa", categories=ALL, subresources=STATUS),
    does="replicas by the CPU and memory that pods use",
    lacks="CPU and memory only",
    defaults=_defaults,
    check=autoscaler_causes,
    warns=autoscaler_warnings,
    columns=autoscalers.COLUMNS,
    viewed=("", "status"),
    edited=("",),
)
