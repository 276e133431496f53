"""ControllerRevisions: what a workload once was."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta.objects import Object, metadata_of, name_of
from trainshed.kube.meta.resources import CONTROLLERREVISIONS


def _row(obj: Object, now: float) -> list[Any]:
    owner = next((o for o in metadata_of(obj).get("ownerReferences") or () if o.get("controller")), None)
    text = NONE
    if owner:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = owner.get("kind", "").lower()
        text = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [name_of(obj), text, obj.get("revision", 0), age(obj, now)]


KIND = Builtin(
    info=row(CONTROLLERREVISIONS),
    does="the history of DaemonSets and StatefulSets",
    columns=Columns(define("Name, Controller, Revision, Age"), _row),
    viewed=("",),
)
