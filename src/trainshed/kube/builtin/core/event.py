"""Events, in the shape in which they are stored."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts import events
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import either, path, paths
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import EVENTS


def _defaults(obj: Object) -> None:
    for field in ("reportingComponent", "reportingInstance"):
        obj.setdefault(field, "")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a core Event."""
    return events.event_causes(obj, "reportingComponent")


KIND = Builtin(
    info=row(EVENTS, "ev", create_on_update=True),
    does="repeats raise `count`; deleted after an hour",
    defaults=_defaults,
    check=_check,
    columns=events.COLUMNS,
    fields={
        **{
            f"involvedObject.{name}": either(path("involvedObject", name), path("regarding", name))
            for name in events.REFERENCE
        },
        **paths("reason", "type"),
        "reportingComponent": either(path("reportingComponent"), path("reportingController")),
        "source": either(
            either(path("source", "component"), path("deprecatedSource", "component")),
            either(path("reportingComponent"), path("reportingController")),
        ),
    },
    viewed=("",),
    edited=("",),
)
