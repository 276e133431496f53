"""The vocabulary of printed tables: column definitions, and the cells that many kinds share.

Cell texts follow what kubectl users know: `<none>` for "has none", `<unset>` for "was not set",
`<unknown>` for "not known". Ages are relative to `now`, in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.duration import human
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section
from trainshed.kube.meta.times import time_or_none

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
Cells = Callable[[Object, float], list[Any]]
Conditions = Callable[[Object], list[Object]]


class Columns(msgspec.Struct, frozen=True):
    """The table of one kind: `definitions` are wire objects, `cells` has one entry for each.

    `order` is the key by which rows of a list are sorted; without, they come by name.
    """

    definitions: tuple[Object, ...]
    cells: Cells
    conditions: Conditions | None = None
    order: Callable[[Object], Any] | None = None


def define(text: str) -> tuple[Object, ...]:
    """Return definitions from `Name, Ready, Restarts#, IP*`.

    `*` is shown only when wide, `#` holds integers, `?` booleans, `@` a date. Upstream declares many counts as
    text; this follows it.
    """
    out: list[Object] = []
    for part in text.split(", "):
        name = part.rstrip("*#?@")
        out.append(
            {
                "name": name,
                "type": next((kind for mark, kind in _TYPES.items() if mark in part), "string"),
                "format": "name" if name in ("Name", "Attacher") else "",
                "description": _DESCRIPTIONS.get(name, ""),
                "priority": 1 if "*" in part else 0,
            }
        )
    return tuple(out)


_TYPES = {"#": "integer", "?": "boolean", "@": "date"}
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


def since(timestamp: Any, now: float, missing: str = UNKNOWN) -> str:
    """Return how long ago a timestamp was, e.g. `5m10s`; `missing` when there is none."""
    then = time_or_none(timestamp)
    return missing if then is None else human(now - then)


def age(obj: Object, now: float) -> str:
    """Return the Age cell."""
    return since(metadata_of(obj).get("creationTimestamp"), now)


def created_at(obj: Object) -> str:
    """Return the Created At cell."""
    return str(metadata_of(obj).get("creationTimestamp") or UNKNOWN)


def labels(selector: Mapping[str, str] | None) -> str:
    """Return a map of labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


_OPERATORS = {"In": "in", "NotIn": "notin"}


def label_selector(selector: Object | None) -> str:
    """Return a LabelSelector object in the syntax of `kubectl -l`."""
    selector = selector or {}
    terms = [(key, f"{key}={value}") for key, value in section(selector, "matchLabels").items()]
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
    return section(obj, "spec", "template", "spec")


def first_few(values: Sequence[str], limit: int, missing: str) -> str:
    """Return values joined by commas; beyond `limit`, how many more there are."""
    if not values:
        return missing
    text = ",".join(values[:limit])
    return text if len(values) <= limit else f"{text} + {len(values) - limit} more..."


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


def _name_created(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), created_at(obj)]


NAME_CREATED = Columns(define("Name, Created At@"), _name_created)
"""The table of kinds that have none of their own."""
