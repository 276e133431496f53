"""CSINodes."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(spec_of(obj).get("drivers") or ()), age(obj, now)]


KIND = Builtin(
    info=row(
        Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False), unconditional_update=False
    ),
    columns=Columns(define("Name, Drivers#, Age"), _row),
    returns_deleted=True,
)
