"""ResourceQuotas: stored, never counted."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import core


def _defaults(obj: Object) -> None:
    obj.setdefault("status", {})


def _row(obj: Object, now: float) -> list[Any]:
    hard, used = section(obj, "status", "hard"), section(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for key in sorted(hard):
        text = f"{key}: {used.get(key, '0')}/{hard[key]}"
        (limits if key.startswith("limits.") else requests).append(text)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


KIND = Builtin(
    info=row(core("resourcequotas", "ResourceQuota"), "quota", subresources=STATUS),
    inert=True,
    defaults=_defaults,
    columns=Columns(define("Name, Request, Limit, Age"), _row),
    viewed=("",),
    returns_deleted=True,
)
