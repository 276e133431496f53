"""PodDisruptionBudgets: a controller says in their status what may be evicted; evictions spend it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of, status_of
from trainshed.kube.meta.resources import PODDISRUPTIONBUDGETS
from trainshed.kube.schema.metadata import selector_causes

_PERCENT = re.compile(r"[0-9]+%")


def _defaults(obj: Object) -> None:
    status = obj.setdefault("status", {})
    for count in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"):
        status.setdefault(count, 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        yield causes.invalid("spec", spec, text)
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        at = f"spec.{field}"
        if isinstance(value, int) and value < 0:
            yield causes.invalid(at, value, causes.NON_NEGATIVE)
        shown = f'intstr.IntOrString{{Type:1, IntVal:0, StrVal:"{value}"}}'
        if isinstance(value, str) and not _PERCENT.fullmatch(value):
            text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%',"
            yield causes.invalid_shown(at, shown, f"{text} regex used for validation is '[0-9]+%')")
        elif isinstance(value, str) and int(value.rstrip("%")) > 100:
            yield causes.invalid_shown(at, shown, "must not be greater than 100%")
    yield from one_of(spec, "spec", "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))
    yield from selector_causes(spec.get("selector"), "spec.selector")


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
    does="evictions and `kubectl drain` keep to them",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"), _row),
    viewed=("", "status"),
    edited=("",),
)
