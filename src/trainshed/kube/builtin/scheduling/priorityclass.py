"""PriorityClasses: a number that may not change; those of the system have fixed names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import PRIORITYCLASSES

HIGHEST_USER_PRIORITY = 1_000_000_000
"""What a class may be given by users; above are the classes `system-…`."""


def _defaults(obj: Object) -> None:
    obj.setdefault("value", 0)
    setdefault(obj, "preemptionPolicy", "PreemptLowerPriority")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    name, value = name_of(obj), obj.get("value") or 0
    if old is not None:
        if value != (old.get("value") or 0):
            yield causes.forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield causes.invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable")
        return
    known = ("system-cluster-critical", "system-node-critical")
    if name.startswith("system-"):
        if name not in known:
            yield causes.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class",
            )
    elif value > HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield causes.forbidden("value", text)
    yield from one_of(obj, "", "preemptionPolicy", ("PreemptLowerPriority", "Never"))


def _row(obj: Object, now: float) -> list[Any]:
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy") or "PreemptLowerPriority",
    ]


KIND = Builtin(
    info=row(PRIORITYCLASSES, "pc", generation=True),
    does="sets the priority of pods: who is placed first, and who gives way to whom",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Value#, Global-Default?, Age, PreemptionPolicy"), _row),
)
