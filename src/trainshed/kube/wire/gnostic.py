"""OpenAPI v2 in the protobuf form that kubectl and Helm ask for first.

Source of messages and field numbers: `openapiv2/OpenAPIv2.proto` of gnostic-models (interface facts). Only what the
documents of an API server have is encoded; what is not in the tables is an error of ours, not of data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object

_Encode = Callable[[Any], bytes]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_SUBSCHEMAS = {"query": 3, "path": 4}
_PARAMETERS = {  # (field of the type, of uniqueItems) by where the parameter is
    "query": (6, 20),
    "path": (5, 19),
}


def document_head(info: Mapping[str, str]) -> bytes:
    """Return what begins a document."""
    return _text(1, "2.0") + _bytes(2, _text(1, info["title"]) + _text(2, info["version"]))


def path_item(path: str, item: Object) -> bytes:
    """Return one path of a document, with the head of the list of paths; several are concatenated."""
    out = b"".join(_bytes(_METHODS[key], _operation(one)) for key, one in item.items() if key in _METHODS)
    out += b"".join(_bytes(9, _parameter(one)) for one in item.get("parameters", ()))
    return _bytes(8, _bytes(2, _named(path, out)))


def definition(name: str, schema: Object) -> bytes:
    """Return one definition of a document, with the head of their list; several are concatenated."""
    return _bytes(9, _bytes(1, _named(name, _schema(schema))))


def security(name: str, key: Mapping[str, str]) -> bytes:
    """Return the end of a document: that requests are signed with a key in a header."""
    required = _bytes(12, _bytes(1, _named(name, b"")))
    fields = ("type", "name", "in", "description")
    item = b"".join(_text(number, key[field]) for number, field in enumerate(fields, 1))
    return required + _bytes(13, _bytes(1, _named(name, _bytes(2, item))))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode()) if text else b""


def _texts(number: int, texts: Any) -> bytes:
    return b"".join(_bytes(number, text.encode()) for text in texts)


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _any(value: Any) -> bytes:
    """Return a value as YAML, of which JSON is a part."""
    return _bytes(2, msgspec.json.encode(value) + b"\n")


def _extensions(number: int, node: Object) -> bytes:
    return b"".join(
        _bytes(number, _named(key, _any(value))) for key, value in node.items() if key.startswith("x-")
    )


def _operation(one: Object) -> bytes:
    return (
        _texts(1, one.get("tags", ()))
        + _text(3, one.get("description", ""))
        + _text(5, one.get("operationId", ""))
        + _texts(6, one.get("produces", ()))
        + _texts(7, one.get("consumes", ()))
        + b"".join(_bytes(8, _parameter(each)) for each in one.get("parameters", ()))
        + _bytes(9, b"".join(_bytes(1, _named(*_response(*each))) for each in one["responses"].items()))
        + _texts(10, one.get("schemes", ()))
        + _extensions(13, one)
    )


def _response(code: str, response: Object) -> tuple[str, bytes]:
    out = _text(1, response.get("description", ""))
    if "schema" in response:
        out += _bytes(2, _bytes(1, _schema(response["schema"])))
    return code, _bytes(1, out)


def _parameter(one: Object) -> bytes:
    """Return a parameter in the envelopes of `ParametersItem` and `Parameter`."""
    where = one["in"]
    if where == "body":
        out = _text(1, one.get("description", "")) + _text(2, one["name"]) + _text(3, where)
        return _bytes(
            1, _bytes(1, out + _flag(4, one.get("required", False)) + _bytes(5, _schema(one["schema"])))
        )
    of_type, unique = _PARAMETERS[where]
    out = _flag(1, one.get("required", False)) + _text(2, where) + _text(3, one.get("description", ""))
    out += _text(4, one["name"]) + _text(of_type, one["type"]) + _flag(unique, one.get("uniqueItems", False))
    return _bytes(1, _bytes(2, _bytes(_SUBSCHEMAS[where], out)))


def _schema(node: Object) -> bytes:
    parts = [encode(node[key]) for key, encode in _SCHEMA.items() if key in node]
    return b"".join(parts) + _extensions(31, node)


def _children(children: Object) -> bytes:
    return _bytes(25, b"".join(_bytes(1, _named(name, _schema(child))) for name, child in children.items()))


def _additional(value: Any) -> bytes:
    inner = _number(2, int(value)) if isinstance(value, bool) else _bytes(1, _schema(value))
    return _bytes(21, inner)


_SCHEMA: dict[str, _Encode] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "title": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _bytes(5, _any(value)),
    "multipleOf": lambda value: _double(6, value),
    "maximum": lambda value: _double(7, value),
    "exclusiveMaximum": lambda value: _flag(8, value),
    "minimum": lambda value: _double(9, value),
    "exclusiveMinimum": lambda value: _flag(10, value),
    "maxLength": lambda value: _number(11, value),
    "minLength": lambda value: _number(12, value),
    "pattern": lambda value: _text(13, value),
    "maxItems": lambda value: _number(14, value),
    "minItems": lambda value: _number(15, value),
    "uniqueItems": lambda value: _flag(16, value),
    "maxProperties": lambda value: _number(17, value),
    "minProperties": lambda value: _number(18, value),
    "required": lambda value: _texts(19, value),
    "enum": lambda value: b"".join(_bytes(20, _any(each)) for each in value),
    "additionalProperties": _additional,
    "type": lambda value: _bytes(22, _texts(1, [value] if isinstance(value, str) else value)),
    "items": lambda value: _bytes(23, _bytes(1, _schema(value))),
    "properties": _children,
    "example": lambda value: _bytes(30, _any(value)),
}
