"""PodMetrics, computed when asked for."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import UNKNOWN, Columns, define
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.quantity import canonical, parse
from trainshed.kube.meta.resources import PODMETRICS


def _total(usages: list[Object], resource: str) -> str:
    """Return the sum of a resource over containers, as a quantity."""
    found = [usage[resource] for usage in usages if resource in usage]
    if len(found) == 1:
        return str(found[0])
    return canonical(str(sum(map(parse, found)))) if found else UNKNOWN


def _row(obj: Object, now: float) -> list[Any]:
    usages = [section(item, "usage") for item in obj.get("containers") or ()]
    return [name_of(obj), _total(usages, "cpu"), _total(usages, "memory"), obj.get("window", "")]


KIND = Builtin(
    info=row(PODMETRICS, verbs=("get", "list"), stored=False),
    does="`kubectl top pods`",
    columns=Columns(define("Name, CPU, Memory, Window"), _row),
    viewed=("",),
)
