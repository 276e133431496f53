"""PodDisruptionBudgets; evictions spend what their status allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of, status_of
from trainshed.kube.meta.resources import PODDISRUPTIONBUDGETS


def _defaults(obj: Object) -> None:
    status = obj.setdefault("status", {})
    for count in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"):
        status.setdefault(count, 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        yield causes.invalid("spec", spec, text)


def _row(obj: Object, now: float) -> list[Any]:
    least, most = spec_of(obj).get("minAvailable"), spec_of(obj).get("maxUnavailable")
    return [
        name_of(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status_of(obj).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


KIND = Builtin(
    info=row(
        PODDISRUPTIONBUDGETS,
        "pdb",
        subresources=STATUS,
        unconditional_update=False,
        generation=True,
    ),
    inert=True,
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"), _row),
    viewed=("", "status"),
    edited=("",),
)
