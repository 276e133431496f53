"""The vocabulary of printed tables: column definitions, and the cells that many kinds share.

Cell texts follow what kubectl users know: `<none>` for "has none", `<unset>` for "was not set",
`<unknown>` for "not known". Ages are relative to `now`, in seconds since the epoch.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.duration import human
from trainshed.kube.meta.objects import Object

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

Cells = Callable[[Object, float], list[Any]]
Conditions = Callable[[Object], list[Object]]


class Columns(msgspec.Struct, frozen=True):
    """The table of one kind: `definitions` are wire objects, `cells` has one entry for each."""

    definitions: tuple[Object, ...]
    cells: Cells
    conditions: Conditions | None = None


def define(text: str) -> tuple[Object, ...]:
    """Return definitions from `Name, Ready, Restarts#, IP*`: `*` only when wide, `#` holds integers."""
    out: list[Object] = []
    for part in text.split(", "):
        name = part.rstrip("*#")
        out.append(
            {
                "name": name,
                "type": "integer" if "#" in part else "string",
                "format": "name" if name == "Name" else "",
                "description": _DESCRIPTIONS.get(name, ""),
                "priority": 1 if "*" in part else 0,
            }
        )
    return tuple(out)


_DESCRIPTIONS = {
    "Name": "Name of the object, unique within its namespace.",
    "Age": "Time since the object was created.",
    "Created At": "When the object was created, in UTC.",
    "Ready": "How many are ready, of how many.",
    "Status": "What the object is doing, in a word.",
    "Containers": "Names of the containers in the template.",
    "Images": "Images of the containers in the template.",
    "Selector": "Label selector of the pods that belong to the object.",
}


def metadata(obj: Object) -> Object:
    """Return the metadata, empty when missing."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def name(obj: Object) -> str:
    """Return the Name cell."""
    return str(metadata(obj).get("name", ""))


def spec(obj: Object) -> Object:
    """Return the spec, empty when missing."""
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    """Return the status, empty when missing."""
    return obj.get("status") or {}


def epoch(timestamp: Any) -> float | None:
    """Return an RFC 3339 timestamp as seconds since the epoch; None when absent or malformed."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        parsed = datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return parsed.timestamp()


def since(timestamp: Any, now: float, missing: str = UNKNOWN) -> str:
    """Return how long ago a timestamp was, e.g. `5m10s`; `missing` when there is none."""
    then = epoch(timestamp)
    return missing if then is None else human(now - then)


def age(obj: Object, now: float) -> str:
    """Return the Age cell."""
    return since(metadata(obj).get("creationTimestamp"), now)


def created_at(obj: Object) -> str:
    """Return the Created At cell."""
    return str(metadata(obj).get("creationTimestamp") or UNKNOWN)


def labels(selector: Mapping[str, str] | None) -> str:
    """Return a map of labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


_OPERATORS = {"In": "in", "NotIn": "notin"}


def label_selector(selector: Object | None) -> str:
    """Return a LabelSelector object in the syntax of `kubectl -l`."""
    selector = selector or {}
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        key, operator = item.get("key", ""), item.get("operator", "")
        if operator in _OPERATORS:
            values = ",".join(sorted(item.get("values") or ()))
            terms.append((key, f"{key} {_OPERATORS[operator]} ({values})"))
        else:
            terms.append((key, f"!{key}" if operator == "DoesNotExist" else key))
    return ",".join(text for _, text in sorted(terms)) or NONE


def containers(pod_spec: Object | None) -> tuple[str, str]:
    """Return the Containers and Images cells of a pod template's spec."""
    found = (pod_spec or {}).get("containers") or ()
    return ",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)


def template_spec(obj: Object) -> Object:
    """Return the pod spec of a workload's template."""
    return (spec(obj).get("template") or {}).get("spec") or {}


def first_few(values: Sequence[str], limit: int, missing: str) -> str:
    """Return values joined by commas; beyond `limit`, how many more there are."""
    if not values:
        return missing
    text = ",".join(values[:limit])
    return text if len(values) <= limit else f"{text} + {len(values) - limit} more..."


def condition(obj: Object, kind: str) -> Object | None:
    """Return the status condition of a type, or None."""
    for item in status(obj).get("conditions") or ():
        if item.get("type") == kind:
            return dict(item)
    return None


def is_true(obj: Object, kind: str) -> bool:
    """Whether a status condition is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: Iterable[str] | None) -> str:
    """Return volume access modes in short form and fixed order."""
    present = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in present)
