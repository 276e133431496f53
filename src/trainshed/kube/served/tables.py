"""Tables: what `kubectl get` prints, computed by the server (`as=Table` in the Accept header).

Columns of built-in kinds are declared with them (`kube.builtin`); those of custom resources from the CRD's
`additionalPrinterColumns`, or NAME and AGE when there are none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from trainshed.kube.builtin.parts.columns import NAME_CREATED, Columns, age, define, since
from trainshed.kube.builtin.registry import find
from trainshed.kube.meta.jsonpath import first
from trainshed.kube.meta.objects import Object, metadata_of, name_of
from trainshed.kube.meta.resourceinfo import ResourceInfo

IncludeObject = Literal["None", "Metadata", "Object"]

_NAME = define("Name")[0]


def columns(info: ResourceInfo) -> list[Object]:
    """Return the `columnDefinitions` of a resource's table."""
    if not info.crd:
        return list(_builtin(info).definitions)
    out = [_NAME]
    for column in info.printer_columns:
        told = f"Custom resource definition column (in JSONPath format): {column.get('jsonPath', '')}"
        out.append(
            {
                "name": column.get("name", ""),
                "type": column.get("type", "string"),
                "format": column.get("format", ""),
                "description": column.get("description") or told,
                "priority": column.get("priority", 0),
            }
        )
    if not info.printer_columns:
        out.append(define("Age")[0])
    return out


def row_cells(info: ResourceInfo, obj: Object, now: float) -> tuple[list[Any], list[Object]]:
    """Return one row's cells, in the order of `columns`, and its row conditions."""
    if info.crd:
        if not info.printer_columns:
            return [name_of(obj), age(obj, now)], []
        return [name_of(obj), *(_custom_cell(column, obj, now) for column in info.printer_columns)], []
    table = _builtin(info)
    return table.cells(obj, now), table.conditions(obj) if table.conditions else []


def _builtin(info: ResourceInfo) -> Columns:
    kind = find(info.resource)
    return NAME_CREATED if kind is None else kind.columns


def _custom_cell(column: Object, obj: Object, now: float) -> Any:
    """Return the value at a column's path in the column's type; None prints as an empty cell."""
    try:
        value = first(obj, column.get("jsonPath", ""))
    except ValueError:  # stored before paths were checked: an empty cell beats a list that cannot be read
        return None
    if value is None:
        return None
    match column.get("type"):
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return value if _is_number(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return since(value, now, "<invalid>")
        case _:
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def partial(obj: Object, version: str = "v1") -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata_of(obj),
    }


def partial_list(objects: Iterable[Object], list_metadata: Object, version: str = "v1") -> Object:
    """Return the PartialObjectMetadataList of a list; `list_metadata` is the list's own metadata."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_metadata,
        "items": [partial(obj, version) for obj in objects],
    }


def table(
    info: ResourceInfo,
    objects: Iterable[Object],
    list_metadata: Object,
    now: float,
    *,
    include_object: IncludeObject = "Metadata",
    version: str = "v1",
    with_columns: bool = True,
    shape: Columns | None = None,
) -> Object:
    """Return a whole Table.

    Args:
        list_metadata: resourceVersion, continue and remainingItemCount of the list (or of the one object).
        with_columns: False for all but the first event of a watch, where definitions are null.
        shape: the columns of objects that are of another kind than the resource's: its Scale, say.
    """
    definitions = columns(info) if shape is None else list(shape.definitions)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_metadata,
        "columnDefinitions": definitions if with_columns else None,
        "rows": [_row(info, obj, now, include_object, version, shape) for obj in objects],
    }


def _row(
    info: ResourceInfo, obj: Object, now: float, include: IncludeObject, version: str, shape: Columns | None
) -> Object:
    cells, conditions = row_cells(info, obj, now) if shape is None else (shape.cells(obj, now), [])
    row: Object = {"cells": cells}
    if conditions:
        row["conditions"] = conditions
    if include == "Metadata":
        row["object"] = partial(obj, version)
    elif include == "Object":
        # Items of a list may lack their type; inside a table nothing else says what they are.
        row["object"] = {"apiVersion": info.resource.api_version, "kind": info.resource.kind, **obj}
    else:
        row["object"] = None
    return row
