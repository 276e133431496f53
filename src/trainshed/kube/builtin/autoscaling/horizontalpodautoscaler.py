"""HorizontalPodAutoscalers, in the shape in which they are stored."""

from __future__ import annotations

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts import autoscalers
from trainshed.kube.builtin.parts.autoscalers import autoscaler_causes, autoscaler_defaults
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS


def _defaults(obj: Object) -> None:
    autoscaler_defaults(obj)
    spec = obj["spec"]
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


KIND = Builtin(
    info=row(HORIZONTALPODAUTOSCALERS, "hpa", categories=ALL, subresources=STATUS),
    inert=True,
    defaults=_defaults,
    check=autoscaler_causes,
    columns=autoscalers.COLUMNS,
    viewed=("", "status"),
    edited=("",),
)
