"""Events of events.k8s.io: core events under newer names.

Source of the names: the conversion functions of the Kubernetes API (`pkg/apis/core`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts import events
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import either, path, paths
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import EVENTS, Resource


def _renamed(obj: Object, names: tuple[tuple[str, str], ...]) -> Object:
    table = dict(names)
    return {table.get(key, key): value for key, value in obj.items()}


class _View:
    """`regarding` is `involvedObject`, `note` is `message`, what is deprecated keeps its old name inside."""

    _NAMES = (
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    )
    _BACK = tuple((stored, shown) for shown, stored in _NAMES)

    def to_storage(self, obj: Object) -> Object:
        return _renamed(obj, self._NAMES)

    def from_storage(self, obj: Object) -> Object:
        out = _renamed(obj, self._BACK)
        out.setdefault("eventTime", None)
        return out


_VIEW = _View()


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an Event: what core events may leave out, and what an update changes."""
    event = _VIEW.to_storage(obj)
    if old is None and not event.get("eventTime"):
        yield causes.required("eventTime")
    yield from events.event_causes(event, "reportingController")
    yield from events.series_causes(event)
    if old is not None:
        yield from events.frozen_causes(event, _VIEW.to_storage(old))
        return
    if event.get("type") not in ("Normal", "Warning"):
        yield causes.invalid("type", "", f"has invalid value: {event.get('type') or ''}")
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(field):
            yield causes.invalid(field, "", "needs to be unset")


KIND = Builtin(
    info=row(Resource("events.k8s.io", "v1", "events", "Event"), "ev", view_of=EVENTS, create_on_update=True),
    does="the same objects as core events",
    view=_VIEW,
    check=_check,
    columns=events.COLUMNS,
    fields={
        **{
            f"regarding.{name}": either(path("regarding", name), path("involvedObject", name))
            for name in events.REFERENCE
        },
        **paths("reason", "type"),
        "reportingController": either(path("reportingController"), path("reportingComponent")),
    },
)
