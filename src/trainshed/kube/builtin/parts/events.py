"""What both shapes of events share: their rules, the cells of their table, and how selectors read them.

Source of rules and texts: `pkg/apis/core/validation/events.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.columns import Columns, define, since
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section

_OF_NODES = ("default", "kube-system")
"""Where events are about what is in no namespace."""
_MESSAGE_MAX = 1024
_NAME_MAX = 128
_REFERENCE_FIELDS = ("Kind", "Namespace", "Name", "UID", "APIVersion", "ResourceVersion", "FieldPath")
_JSON = {
    "UID": "uid",
    "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion",
    "FieldPath": "fieldPath",
}
_FROZEN = (
    ("involvedObject", "involvedObject"), ("reason", "reason"), ("message", "message"), ("source", "source"),
    ("firstTimestamp", "firstTimestamp"), ("lastTimestamp", "lastTimestamp"),
    ("count", "count"), ("reason", "reason"), ("type", "type"),
    ("eventTime", "eventTime"), ("action", "action"), ("related", "related"),
    ("reportingController", "reportingComponent"), ("reportingInstance", "reportingInstance"),
)  # fmt: skip
"""What an update by events.k8s.io may not change: as it is told, and as it is stored."""


def event_causes(event: Object, controller: str) -> Iterator[Cause]:
    """Yield what is wrong with an event in the shape in which it is stored.

    One with an `eventTime` says who reports what. `controller` is what the field of the reporter is called.
    """
    namespace = metadata_of(event).get("namespace")
    involved = section(event, "involvedObject").get("namespace") or ""
    lacking = not involved and namespace not in _OF_NODES
    if lacking or (involved and involved != namespace and not event.get("eventTime")):
        yield causes.invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not event.get("eventTime"):
        return
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        yield causes.required(controller)
    for why in names.qualified_name(reporter):
        yield causes.invalid(controller, reporter, why)
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field) or ""
        if not value:
            yield causes.required(field)
        if len(value) > _NAME_MAX:
            yield causes.invalid(field, "", f"can have at most {_NAME_MAX} characters")
    if len(event.get("message") or "") > _MESSAGE_MAX:
        yield causes.invalid("message", "", f"can have at most {_MESSAGE_MAX} characters")


def series_causes(event: Object) -> Iterator[Cause]:
    """Yield what is wrong with the repetitions of an event of events.k8s.io."""
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield causes.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield causes.required("series.lastObservedTime")


def frozen_causes(event: Object, old: Object) -> Iterator[Cause]:
    """Yield what of an event an update by events.k8s.io changes, though it may not; both as they are stored."""
    for told, field in _FROZEN:
        value = event.get(field)
        if (value or None) != (old.get(field) or None):
            yield causes.invalid_shown(told, _shown(field, value), "field is immutable")


def _shown(field: str, value: Any) -> str:
    if field in ("involvedObject", "related"):
        if value is None and field == "related":
            return "null"
        texts = (
            (name, golang.text((value or {}).get(_JSON.get(name, name.lower()))))
            for name in _REFERENCE_FIELDS
        )
        return f"core.ObjectReference{{{', '.join(f'{name}:{text}' for name, text in texts)}}}"
    if field == "source":
        texts = ((name, golang.text((value or {}).get(name.lower()))) for name in ("Component", "Host"))
        return f"core.EventSource{{{', '.join(f'{name}:{text}' for name, text in texts)}}}"
    if field.endswith(("Timestamp", "Time")):
        whole, _, part = str(value or "0001-01-01T00:00:00Z").removesuffix("Z").partition(".")
        part = part.rstrip("0")
        return golang.time(f"{whole}.{part}" if part else whole)
    return str(value or 0) if field == "count" else golang.text(value)


def _row(obj: Object, now: float) -> list[Any]:
    """Serve both shapes: core events, and events.k8s.io with its renamed fields."""
    involved = obj.get("involvedObject") or section(obj, "regarding")
    source = obj.get("source") or section(obj, "deprecatedSource")
    series = section(obj, "series")
    first_time = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_time
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or obj.get("reportingInstance") or ""
    kind = involved.get("kind", "").lower()
    message = obj.get("message") or obj.get("note") or ""
    return [
        since(series.get("lastObservedTime") or last_time, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        ", ".join(filter(None, (component, host))),
        message.strip(),
        since(first_time, now),
        series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1,
        name_of(obj),
    ]


COLUMNS = Columns(
    define("Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*"),
    _row,
)
REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
"""The fields of an object reference, all of which can be selected on."""
