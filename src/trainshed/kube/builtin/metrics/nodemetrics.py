"""NodeMetrics, computed when asked for."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import UNKNOWN, Columns, define
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import Resource


def _row(obj: Object, now: float) -> list[Any]:
    usage = section(obj, "usage")
    return [name_of(obj), usage.get("cpu", UNKNOWN), usage.get("memory", UNKNOWN), obj.get("window", "")]


KIND = Builtin(
    info=row(
        Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False),
        verbs=("get", "list"),
        stored=False,
    ),
    does="`kubectl top nodes`",
    columns=Columns(define("Name, CPU, Memory, Window"), _row),
    viewed=("",),
)
