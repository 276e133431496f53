"""Decodes request bodies in `application/vnd.kubernetes.protobuf`; nothing here encodes it.

kubectl 1.32 and later, and client-go controllers configured for it, send protobuf and accept JSON back.
A body is the magic `k8s\\0` followed by the message Unknown {1: TypeMeta{1: apiVersion, 2: kind},
2: raw, 3: contentEncoding, 4: contentType}. Field numbers come from `data/protobuf.txt`; see its head
for the grammar. The result has the shape of the JSON body that an older client would have sent:
scalars at their zero value and empty messages are absent unless the field is a pointer.

Source: "Protobuf encoding" in the Kubernetes API concepts documentation, and the .proto files of k8s.io/api.
"""

from __future__ import annotations

import base64
import datetime
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainshed.kube.meta.errors import bad_request, unsupported_media_type
from trainshed.kube.meta.objects import Object

MAGIC = b"k8s\x00"

_TABLE = Path(__file__).parents[1] / "data" / "protobuf.txt"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 100
# Scalars that stay although they are zero: the field is not optional in JSON either.
_KEEP_ZERO = {("scheduling.v1.PriorityClass", "value")}


class _Malformed(Exception):
    """The bytes are not the message they claim to be."""


class _Field(msgspec.Struct, frozen=True):
    name: str  # empty: the message's fields belong to the parent
    type: str
    pointer: bool


@functools.cache
def _messages() -> dict[str, dict[int, _Field]]:
    """Return message name -> field number -> field, read on first use."""
    text = _TABLE.read_text("utf-8")
    out: dict[str, dict[int, _Field]] = {}
    package = ""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            package = line.strip("[]")
            continue
        name, _, body = line.partition(" = ")
        fields: dict[int, _Field] = {}
        for part in filter(None, body.split(", ")):
            number, field_name, type_name = part.split(" ")
            pointer = field_name.endswith("?")
            fields[int(number)] = _Field(field_name.rstrip("?").replace("^", ""), type_name, pointer)
        out[f"{package}.{name}"] = fields
    return out


def decode(body: bytes) -> Object:
    """Return the object in a protobuf body, `apiVersion` and `kind` included.

    Raises:
        ApiError: 400 when the bytes are malformed, 415 when the kind has no protobuf form here.
    """
    if not body.startswith(MAGIC):
        raise bad_request("the body does not start with the protobuf marker of Kubernetes")
    try:
        return _decode_envelope(body[len(MAGIC) :])
    except (_Malformed, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def _decode_envelope(data: bytes) -> Object:
    type_meta = raw = b""
    content_type = ""
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            type_meta = value
        elif number == 2:
            raw = value
        elif number == 4:
            content_type = value.decode()
    api_version = kind = ""
    for number, value in _fields(type_meta):
        if isinstance(value, bytes):
            if number == 1:
                api_version = value.decode()
            elif number == 2:
                kind = value.decode()
    if content_type.startswith("application/json"):
        decoded = msgspec.json.decode(raw)
        if not isinstance(decoded, dict):
            raise _Malformed("not an object")
        return decoded
    message = _message_of(api_version, kind)
    return {"apiVersion": api_version, "kind": kind, **_decode_message(raw, message, 0)}


def _message_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    package = group.split(".")[0] or "core"
    name = f"{package}.{version}.{kind}"
    if name in _messages():
        return name
    # Options such as DeleteOptions exist once but travel under every group's apiVersion.
    if f"meta.v1.{kind}" in _messages():
        return f"meta.v1.{kind}"
    raise unsupported_media_type(("application/json", "application/yaml"))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset behind it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Malformed("truncated or oversized varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value): integers for varints, bytes for everything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire == _FIXED64:
            size = 8
        elif wire == _FIXED32:
            size = 4
        else:
            raise _Malformed(f"unknown wire type {wire}")
        if at + size > len(data):
            raise _Malformed("truncated field")
        yield number, data[at : at + size]
        at += size


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Malformed("integer where bytes belong")
    return value


def _decode_message(data: bytes, message: str, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise _Malformed("nested too deeply")
    table = _messages()[message]
    out: Object = {}
    for number, raw in _fields(data):
        field = table.get(number)
        if field is None:
            continue  # newer than the table
        kind = field.type
        if not field.name:
            out |= _decode_message(_bytes(raw), kind, depth + 1)
        elif kind.startswith("["):
            out.setdefault(field.name, []).extend(_repeated(raw, kind[1:-1], depth))
        elif kind.startswith("map<"):
            key, value = _map_entry(_bytes(raw), kind[4:-1].split(",")[1], depth)
            out.setdefault(field.name, {})[key] = value
        else:
            value = _value(raw, kind, depth)
            keep = field.pointer or (message, field.name) in _KEEP_ZERO
            if value is not None and (keep or value not in ("", 0, False, {})):
                out[field.name] = value
    for owner, name in _KEEP_ZERO:
        if owner == message:
            out.setdefault(name, 0)
    return out


def _repeated(raw: int | bytes, kind: str, depth: int) -> list[Any]:
    if kind == "i" and isinstance(raw, bytes):  # packed
        out: list[Any] = []
        at = 0
        while at < len(raw):
            value, at = _varint(raw, at)
            out.append(_signed(value))
        return out
    return [_value(raw, kind, depth)]


def _map_entry(data: bytes, kind: str, depth: int) -> tuple[str, Any]:
    key = ""
    value: Any = [] if kind.startswith("[") else _EMPTY.get(kind)
    for number, raw in _fields(data):
        if number == 1:
            key = _bytes(raw).decode()
        elif number == 2 and kind.startswith("["):
            # A list as a map value is a message of its own, with the items in field 1.
            value = [_value(item, kind[1:-1], depth) for one, item in _fields(_bytes(raw)) if one == 1]
        elif number == 2:
            value = _value(raw, kind, depth)
    return key, value


_EMPTY: dict[str, Any] = {"s": "", "B": "", "Q": "0"}


def _value(raw: int | bytes, kind: str, depth: int) -> Any:
    """Return the JSON value of one field; None when the value is JSON's absence (a zero time)."""
    if kind == "i":
        if not isinstance(raw, int):
            raise _Malformed("bytes where an integer belongs")
        return _signed(raw)
    if kind == "b":
        return bool(raw)
    data = _bytes(raw)
    if kind == "s":
        return data.decode()
    if kind == "B":
        return base64.b64encode(data).decode()
    if kind == "Q":
        return next((_bytes(value).decode() for number, value in _fields(data) if number == 1), "0")
    if kind in ("Time", "MicroTime"):
        return _time(data, micro=kind == "MicroTime")
    if kind == "IoS":
        return _int_or_string(data)
    if kind == "FieldsV1":
        raw_json = next((_bytes(value) for number, value in _fields(data) if number == 1), b"{}")
        return msgspec.json.decode(raw_json)
    return _decode_message(data, kind, depth + 1)


def _int_or_string(data: bytes) -> int | str:
    values = dict(_fields(data))
    if values.get(1, 0) == 1:
        return _bytes(values.get(3, b"")).decode()
    number = values.get(2, 0)
    if not isinstance(number, int):
        raise _Malformed("bytes where an integer belongs")
    return _signed(number)


def _time(data: bytes, *, micro: bool) -> str | None:
    """Return RFC 3339 in UTC, whole seconds or microseconds; None for the zero time."""
    if not data:
        return None
    values = dict(_fields(data))
    seconds, nanos = values.get(1, 0), values.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise _Malformed("bytes where an integer belongs")
    try:
        when = datetime.datetime.fromtimestamp(_signed(seconds), datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise _Malformed(f"time out of range: {error}") from error
    text = when.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"
