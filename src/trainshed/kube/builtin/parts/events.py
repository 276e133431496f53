"""What both shapes of events share: the cells of their table, and how selectors read them."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.parts.columns import Columns, define, since
from trainshed.kube.meta.objects import Object, name_of, section


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
