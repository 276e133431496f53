"""JSON Patch (RFC 6902) over plain JSON values, copying once what changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.wire.body import TOO_DEEP, is_too_deep, json_kind

MAX_OPERATIONS = 10_000
"""More are answered with 413, as upstream does."""

OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""What all copies of a JSON patch may add: each can double the document, so that a short patch has no end."""

_MISSING: Any = object()


class Refused(ValueError):
    """An operation that does not fit the document; the text says why in the words of upstream's library."""


class _NoContainer(Exception):
    """What an operation is about would be in something that is not there."""


class _NoKey(Exception):
    """What an operation is about is not there, or no place for it; the text is the key."""


_MISSING_CONTAINER = {
    "add": 'add operation does not apply: doc is missing path: "{path}": missing value',
    "remove": 'remove operation does not apply: doc is missing path: "{path}": missing value',
    "replace": "replace operation does not apply: doc is missing path: {path}: missing value",
    "test": "test operation does not apply: is missing path: {path}: missing value",
    "move": "move operation does not apply: doc is missing from path: {path}: missing value",
    "copy": "copy operation does not apply: doc is missing from path: {path}: missing value",
}
_MISSING_KEY = {
    "remove": "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value",
    "replace": "replace operation does not apply: doc is missing key: {path}: missing value",
    "test": "testing value {path} failed: test failed",
    "move": "error in move for path: '{path}': {key}: missing value",
    "copy": "error in copy for path: '{path}': {key}: missing value",
}


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
    for operation in operations:
        if not isinstance(operation, dict | None):
            found = f"{json_kind(operation)} into Go value of type handlers.jsonPatchOp"
            raise bad_request(f"error decoding patch: json: cannot unmarshal {found}")
        for field in ("op", "path", "from"):
            if operation and not isinstance(operation.get(field), str | None):
                found = (
                    f"{json_kind(operation[field])} into Go struct field jsonPatchOp.{field} of type string"
                )
                raise bad_request(f"error decoding patch: json: cannot unmarshal {found}")
    if len(operations) > MAX_OPERATIONS:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    try:
        return operations_applied(target, operations)
    except Refused:
        # The exact words matter: clients such as kopf show or compare them.
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, detailed=True) from None


def operations_applied(target: Any, operations: list[Any]) -> Any:
    """Return `target` with the operations applied in order; all of them or none.

    Raises:
        Refused: one of them does not fit.
        ApiError: 400 and 413 as `json_patch`.
    """
    document = _Document(target)
    copied = 0
    for operation in operations:
        try:
            if isinstance(operation, dict) and operation.get("op") == "copy":
                copied += _size(_get(document.root, _pointer(operation.get("from"))))
                if copied > MAX_COPIED_BYTES:
                    text = f"Unable to complete the copy, the accumulated size increase of copy is {copied}"
                    text += f", exceeding the limit {MAX_COPIED_BYTES}"
                    raise ApiError(413, "RequestEntityTooLarge", text)
            _apply(document, operation)
        except RecursionError:
            raise bad_request(f"error applying patch: {TOO_DEEP}") from None
        except (_NoContainer, _NoKey) as error:
            raise Refused(_why(operation, error)) from None
    if is_too_deep(document.root):
        raise bad_request(f"error applying patch: {TOO_DEEP}")
    return document.root


class _Document:
    """A document that operations change in turn. What others may hold, of the target and of the patch, is copied
    before its first change and not again: ten thousand operations may be on one list of a megabyte."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._own: dict[int, Any] = {}
        """Containers that nothing else refers to, by identity."""

    def edit(self, path: list[str], change: Callable[[Any, str, Any], None], value: Any) -> None:
        """Apply `change(container, last key, value)` to the container that `path` ends in."""
        if not path:
            if value is _MISSING:
                raise _NoKey("")
            self.root = value
            return
        self.root = container = self._owned(self.root)
        for key in path[:-1]:
            if isinstance(container, dict) and key not in container:
                raise _NoContainer
            place = key if isinstance(container, dict) else _position(key, len(container))
            below = self._owned(container[place])
            container[place] = below
            container = below
        change(container, path[-1], value)

    def _owned(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        if not isinstance(container, dict | list):
            raise _NoContainer
        made = container.copy()
        self._own[id(made)] = made
        return made


def _why(operation: dict[str, Any], error: _NoContainer | _NoKey) -> str:
    name = operation["op"]
    path = operation.get("from" if name in ("move", "copy") else "path")
    if isinstance(error, _NoContainer):
        return _MISSING_CONTAINER[name].format(path=path)
    general = "error in {name} for path: '{path}': {key}"
    return _MISSING_KEY.get(name, general).format(name=name, path=path, key=error)


def equal(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal; unlike Python's ==, true is not 1, and 1 is 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def _apply(document: _Document, operation: Any) -> None:
    if not isinstance(operation, dict) or operation.get("op") not in OPERATIONS:
        name = operation.get("op") if isinstance(operation, dict) else None
        raise Refused(f"Unexpected kind: {name or 'unknown'}")
    name, path = operation["op"], _pointer(operation.get("path"))
    if name == "add":
        document.edit(path, _add, _value(operation))
    elif name == "remove":
        document.edit(path, _remove, _MISSING)
    elif name == "replace":
        document.edit(path, _replace, _value(operation))
    elif name == "test":
        _test(document.root, path, operation.get("value"))
    else:
        _transfer(document, name, _pointer(operation.get("from")), path)


def _transfer(document: _Document, name: str, source: list[str], path: list[str]) -> None:
    """Move or copy a value."""
    value = _get(document.root, source)
    if value is _MISSING and name == "copy" and source:
        if not isinstance(_get(document.root, source[:-1]), dict | list):
            raise _NoContainer
        value = None  # as upstream's library has it, unlike RFC 6902
    if value is _MISSING or (name == "move" and source != path and path[: len(source)] == source):
        raise _NoKey(source[-1] if source else "")
    if name == "move":
        document.edit(source, _remove, _MISSING)
    else:
        value = copy.deepcopy(value)  # `MAX_COPIED_BYTES` of it at most
    document.edit(path, _add, value)


def _size(value: Any) -> int:
    return 0 if value is _MISSING else len(msgspec.json.encode(value))


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _NoKey("value")
    return operation["value"]


def _pointer(text: Any) -> list[str]:
    """Return the reference tokens of a JSON Pointer (RFC 6901)."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _NoContainer
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _position(key: str, length: int) -> int:
    if not (key.isascii() and key.isdigit()) or (len(key) > 1 and key[0] == "0") or len(key) > 9:
        raise _NoKey(key)
    index = int(key)
    if index >= length:
        raise _NoKey(key)
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
    if path and not isinstance(_get(document, path[:-1]), dict | list):
        raise _NoContainer
    found = _get(document, path)
    # Upstream lets `test` of null pass on a missing field; absent and null are the same to Go.
    if found is _MISSING:
        found = None
    if not equal(found, expected):
        raise _NoKey(path[-1] if path else "")


def _add(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.insert(len(container) if key == "-" else _position(key, len(container) + 1), value)


def _remove(container: Any, key: str, value: Any) -> None:
    if isinstance(container, list):
        del container[_position(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _NoKey(key)


def _replace(container: Any, key: str, value: Any) -> None:
    # Also where there is none, unlike RFC 6902: upstream's library adds it.
    container[key if isinstance(container, dict) else _position(key, len(container))] = value
