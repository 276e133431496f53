"""ComponentStatuses, computed when asked for."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, define
from trainshed.kube.meta.objects import Object, name_of, objects
from trainshed.kube.meta.resources import COMPONENTSTATUSES


def _row(obj: Object, now: float) -> list[Any]:
    healthy = next((c for c in objects(obj, "conditions") if c.get("type") == "Healthy"), {})
    status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), status, healthy.get("message", ""), healthy.get("error", "")]


KIND = Builtin(
    info=row(
        COMPONENTSTATUSES,
        "cs",
        verbs=("get", "list"),
        stored=False,
        deprecation_warning="v1 ComponentStatus is deprecated in v1.19+",
    ),
    does="`kubectl get cs`: the parts of the control plane, which are one process",
    columns=Columns(define("Name, Status, Message, Error"), _row),
)
