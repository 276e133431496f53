"""What a published schema says besides the data of `definitions`: enumerations, and the default of each field.

A field that Go always writes has the zero value of its type for a default (`zerovalues`), as has each item of a list
and each value of a map. The rest is data: `kube/data/published.txt`.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.zerovalues import zeros_of

_NO_STRUCTS = (
    "api.resource.Quantity",
    "meta.v1.FieldsV1",
    "meta.v1.MicroTime",
    "meta.v1.Time",
    "util.intstr.IntOrString",
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
)
_SCALARS = {"string": "", "integer": 0, "boolean": False}
_INT_OR_STRING: Object = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}


def publish(name: str, schema: Object) -> None:
    """Complete, in place, the schema of definition `name`, in which references are `$ref` or `allOf` of one."""
    if name.endswith("intstr.IntOrString"):
        schema.update(_INT_OR_STRING)
        return
    zeros = zeros_of(name).values
    told = _told().get(name, {})
    for field, node in schema.get("properties", {}).items():
        zero = zeros.get(field)
        if (zero is not None or field == "metadata") and not _is_plain(node):
            node["default"] = {} if field == "metadata" else zero
        for part in ("items", "additionalProperties"):
            if isinstance(node.get(part), dict):
                _complete(node[part])
        for part, word, value in told.get(field, ()):
            target = node[part] if part else node
            if value is msgspec.UNSET:
                target.pop(word, None)
            else:
                target[word] = value
        if "default" in node and "$ref" in node:
            node["allOf"] = [{"$ref": node.pop("$ref")}]


def _complete(item: Object) -> None:
    if "$ref" in item:
        if not _is_plain(item):
            item["allOf"] = [{"$ref": item.pop("$ref")}]
            item["default"] = {}
    elif item.get("type") in _SCALARS and item.get("format") != "byte":
        item["default"] = _SCALARS[item["type"]]
    elif isinstance(item.get("items"), dict):
        _complete(item["items"])


def _is_plain(node: Object) -> bool:
    """Return whether a node refers to what is no struct, and has no default."""
    references = [node, *node.get("allOf", ())]
    return any(str(each.get("$ref", "")).endswith(_NO_STRUCTS) for each in references)


_Told = tuple[str, Literal["enum", "default"], Any]


@functools.lru_cache(maxsize=1)
def _told() -> dict[str, dict[str, list[_Told]]]:
    text = (Path(__file__).parents[1] / "data" / "published.txt").read_text("utf-8")
    out: dict[str, dict[str, list[_Told]]] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith("["):
            package = line.strip("[]")
        elif line and not line.startswith("#"):
            place, word, value = line.split(" ", 2)
            definition, field, *part = place.split(".")
            decoded = msgspec.UNSET if value == "-" else msgspec.json.decode(value)
            row: _Told = (part[0] if part else "", "enum" if word == "enum" else "default", decoded)
            out.setdefault(f"{package}.{definition}", {}).setdefault(field, []).append(row)
    return out
