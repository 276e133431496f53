"""`did you mean` for fields that a server does not know. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from trainshed.kube.schema.nodes import SchemaNode

_UNKNOWN = re.compile(r'unknown field "([^"]+)"|\.(\S+): field not declared in schema')
"""As a server decodes strictly, and as it applies."""
_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


def unknown_fields(message: str, schema: SchemaNode | None) -> list[str]:
    """Return a line for each field that the message calls unknown, with the nearest that there is."""
    paths = (found[1] or found[2] for found in _UNKNOWN.finditer(message))
    return [_line(path, schema) for path in dict.fromkeys(paths)]


def _line(path: str, schema: SchemaNode | None) -> str:
    near = nearest(path, schema)
    return f"{path}: unknown field" + (f"; did you mean {near}?" if near else "")


def nearest(path: str, schema: SchemaNode | None) -> str:
    """Return the name of the field that may be meant, empty where none is near.

    A field that belongs one level higher or lower is found as well: `spec.activeDeadlineSeconds` of a job is
    `runPolicy.activeDeadlineSeconds`.
    """
    *steps, last = [found[0] or found[1] for found in _STEP.findall(path)] or [""]
    parent = schema
    for step in steps:
        parent = _below(parent, step)
    if parent is None:
        return ""
    near: list[str] = difflib.get_close_matches(last, parent.properties, n=1, cutoff=0.6)
    near = near or [name for name in parent.properties if name.lower() == last.lower()]
    if near:
        return near[0]
    return next(_deeper(parent, last), "")


def _below(node: SchemaNode | None, step: str) -> SchemaNode | None:
    if node is None:
        return None
    if node.items is not None:
        # An item by its number, or by its key: [name="main"].
        return node.items if step.isdigit() or "=" in step else _below(node.items, step)
    return node.properties.get(step) or node.additional


def _deeper(node: SchemaNode, name: str) -> Iterator[str]:
    for field, inner in node.properties.items():
        if name in inner.properties:
            yield f"{field}.{name}"
