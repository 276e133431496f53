"""JSON Patch (RFC 6902) over plain JSON values, copying only the path that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.wire.body import TOO_DEEP, is_too_deep, json_kind

MAX_OPERATIONS = 10_000
"""More are answered with 413, as upstream does."""

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""What all copies of a JSON patch may add: each can double the document, so that a short patch has no end."""

_MISSING: Any = object()


class _Refused(Exception):
    """An operation that does not fit the document."""


def json_patch(target: Any, operations: Any) -> Any:
    """Return `target` with the list of `operations` applied in order; all of them or none.

    Raises:
        ApiError: 400 when `operations` is no list of operations or leaves a document that is nested too deeply,
            413 when there are too many or they copy too much, 422 when one of them fails; a failed `test` is such
            a failure.
    """
    if not isinstance(operations, list):
        what = f"json: cannot unmarshal {json_kind(operations)} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {what}")
    if len(operations) > MAX_OPERATIONS:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = target
    copied = 0
    for operation in operations:
        try:
            if isinstance(operation, dict) and operation.get("op") == "copy":
                copied += _size(_get(document, _pointer(operation.get("from"))))
                if copied > MAX_COPIED_BYTES:
                    text = f"Unable to complete the copy, the accumulated size increase of copy is {copied}"
                    text += f", exceeding the limit {MAX_COPIED_BYTES}"
                    raise ApiError(413, "RequestEntityTooLarge", text)
            document = _apply(document, operation)
        except RecursionError:
            raise bad_request(f"error applying patch: {TOO_DEEP}") from None
        except _Refused:
            # The exact words matter: clients such as kopf show or compare them.
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", message, detailed=True) from None
    if is_too_deep(document):
        raise bad_request(f"error applying patch: {TOO_DEEP}")
    return document


def equal(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal; unlike Python's ==, true is not 1, and 1 is 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def _apply(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
        raise bad_request("each operation of a JSON patch must be an object with a string field op")
    name, path = operation["op"], _pointer(operation.get("path"))
    if name == "add":
        return _edit(document, path, _add, _value(operation))
    if name == "remove":
        return _edit(document, path, _remove, _MISSING)
    if name == "replace":
        return _edit(document, path, _replace, _value(operation))
    if name == "test":
        _test(document, path, operation.get("value"))
        return document
    if name in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = _get(document, source)
        if value is _MISSING or (name == "move" and source != path and path[: len(source)] == source):
            raise _Refused
        if name == "move":
            document = _edit(document, source, _remove, _MISSING)
        return _edit(document, path, _add, value)
    raise bad_request(f'unknown JSON patch operation "{name}"')


def _size(value: Any) -> int:
    return 0 if value is _MISSING else len(msgspec.json.encode(value))


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _Refused
    return operation["value"]


def _pointer(text: Any) -> list[str]:
    """Return the reference tokens of a JSON Pointer (RFC 6901)."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _Refused
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _position(key: str, length: int) -> int:
    if not (key.isascii() and key.isdigit()) or (len(key) > 1 and key[0] == "0") or len(key) > 9:
        raise _Refused
    index = int(key)
    if index >= length:
        raise _Refused
    return index


def _get(document: Any, path: list[str]) -> Any:
    for key in path:
        if isinstance(document, dict):
            if key not in document:
                return _MISSING
            document = document[key]
        elif isinstance(document, list):
            document = document[_position(key, len(document))]
        else:
            return _MISSING
    return document


def _test(document: Any, path: list[str], expected: Any) -> None:
    found = _get(document, path)
    # Upstream lets `test` of null pass on a missing field; absent and null are the same to Go.
    if found is _MISSING:
        found = None
    if not equal(found, expected):
        raise _Refused


def _edit(document: Any, path: list[str], change: Callable[[Any, str, Any], Any], value: Any) -> Any:
    """Return `document` with `change(container, last key, value)` applied to a copy of the container."""
    if not path:
        if value is _MISSING:
            raise _Refused
        return value
    key = path[0]
    if len(path) == 1:
        return change(document, key, value)
    if isinstance(document, dict):
        if key not in document:
            raise _Refused
        return {**document, key: _edit(document[key], path[1:], change, value)}
    if isinstance(document, list):
        index = _position(key, len(document))
        return [*document[:index], _edit(document[index], path[1:], change, value), *document[index + 1 :]]
    raise _Refused


def _add(container: Any, key: str, value: Any) -> Any:
    if isinstance(container, dict):
        return {**container, key: value}
    if isinstance(container, list):
        index = len(container) if key == "-" else _position(key, len(container) + 1)
        return [*container[:index], value, *container[index:]]
    raise _Refused


def _remove(container: Any, key: str, value: Any) -> Any:
    if isinstance(container, dict) and key in container:
        return {k: v for k, v in container.items() if k != key}
    if isinstance(container, list):
        index = _position(key, len(container))
        return [*container[:index], *container[index + 1 :]]
    raise _Refused


def _replace(container: Any, key: str, value: Any) -> Any:
    if isinstance(container, dict) and key in container:
        return {**container, key: value}
    if isinstance(container, list):
        index = _position(key, len(container))
        return [*container[:index], value, *container[index + 1 :]]
    raise _Refused
