"""What keeps a document from being a configuration to apply: fields that nobody declared, values of another type.

Server-side apply merges by the schema, so what does not fit it is refused before anything is merged, whatever
`fieldValidation` says. Texts are those of the library that Kubernetes merges with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trainshed.kube.meta import golang
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.fieldset import described_element, item_element, list_keys
from trainshed.kube.schema.nodes import SchemaNode

_encode = msgspec.json.Encoder(order="sorted").encode


def refusal(applied: Object, schema: SchemaNode) -> ApiError | None:
    """Return the 400 for a document that does not fit the schema; None when it fits."""
    found = list(_misfits(applied, schema, ""))
    if not found:
        return None
    named = applied.get("metadata")
    metadata = named if isinstance(named, dict) else {}
    group, _, version = str(applied.get("apiVersion")).rpartition("/")
    what = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    text = found[0] if len(found) == 1 else "".join(["errors:", *(f"\n  {each}" for each in found)])
    return bad_request(
        f"failed to create typed patch object ({what}; {group}/{version}, Kind={applied.get('kind')}): {text}"
    )


def _misfits(value: Any, node: SchemaNode | None, path: str) -> Iterator[str]:
    if value is None or node is None or node.keeps_all:
        return
    if node.quantity or node.int_or_string:
        if isinstance(value, dict | list):
            yield f"{path}: expected any scalar, got {_shown(value)}"
    elif node.type == "object":
        yield from _of_map(value, node, path)
    elif node.type == "array":
        yield from _of_list(value, node, path)
    elif node.type == "string":
        if not isinstance(value, str):
            yield f"{path}: expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
    elif node.type in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{path}: expected numeric (int or float), got {golang.type_name(value)}"
    elif node.type == "boolean" and not isinstance(value, bool):
        yield f"{path}: expected boolean, got {_shown(value)}"


def _of_map(value: Any, node: SchemaNode, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {_shown(value)}"
        return
    for key, item in value.items():
        child = node.child(key)
        if child is None:
            yield f"{path}.{key}: field not declared in schema"
        else:
            yield from _misfits(item, child, f"{path}.{key}")


def _of_list(value: Any, node: SchemaNode, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got {_shown(value)}"
        return
    keys = list_keys(node)
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if keys is not None:
            element, missing = item_element(item, node, keys)
            if element is None:
                yield (
                    f"{path}: element {index}: associative list with keys has an element that omits key field "
                    f'"{missing}" (and doesn\'t have default value)'
                )
                return
            place = described_element(element)
            if element in seen:
                yield f"{path}: duplicate entries for key {place}"
            seen.add(element)
        yield from _misfits(item, node.items, path + place)


def _shown(value: Any) -> str:
    return f"&{{{value if isinstance(value, str) else _encode(value).decode()}}}"


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _encode(value).decode()
