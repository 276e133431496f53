"""RuntimeClasses."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import RUNTIMECLASSES


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


KIND = Builtin(
    info=row(
        RUNTIMECLASSES,
        create_on_update=True,
        unconditional_update=False,
    ),
    does="gives pods that name it overhead, node selector and tolerations",
    lacks="its handler is ignored",
    columns=Columns(define("Name, Handler, Age"), _row),
)
