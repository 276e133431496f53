"""ControllerRevisions: what a workload once was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, name_of
from trainshed.kube.meta.resources import CONTROLLERREVISIONS


def _defaults(obj: Object) -> None:
    obj.setdefault("revision", 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ControllerRevision."""
    if obj["revision"] < 0:
        yield causes.invalid("revision", obj["revision"], causes.NON_NEGATIVE)
    data = obj.get("data")
    if data is None and old is None:
        yield causes.required("data", "data is mandatory")
    elif data is not None and not isinstance(data, dict):
        yield causes.required("data", "data must be a valid JSON object")
    if old is not None and data != old.get("data"):
        yield causes.invalid("data", data, "field is immutable")


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
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Controller, Revision, Age"), _row),
    viewed=("",),
)
