"""Causes of a 422 in upstream's words: every rule of `kube` that refuses a value builds one of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trainshed.kube.meta.errors import Cause

ROOT = "<nil>"
"""What a cause calls the whole object, which has no path."""

NON_NEGATIVE = "must be greater than or equal to 0"


def shown(value: Any) -> str:
    """Return a value as error messages print it: strings quoted, everything else as JSON."""
    return msgspec.json.encode(value).decode()


def invalid(path: str, value: Any, detail: str) -> Cause:
    """Return the cause `Invalid value: <value>: <detail>`."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", path)


def invalid_shown(path: str, value: str, detail: str) -> Cause:
    """Return the cause `Invalid value: <value>: <detail>` of a value that is text already (`golang`)."""
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {detail}", path)


def invalid_text(path: str, detail: str) -> Cause:
    """Return the cause `Invalid value: <detail>`, for values that say nothing themselves."""
    return Cause("FieldValueInvalid", f"Invalid value: {detail}", path)


def required(path: str, detail: str = "") -> Cause:
    """Return the cause `Required value[: detail]`."""
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", path)


def unsupported(path: str, value: Any, supported: Iterable[Any]) -> Cause:
    """Return the cause `Unsupported value: "x": supported values: "a", "b"`."""
    known = ", ".join(shown(choice) for choice in supported)
    text = f"Unsupported value: {shown(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", text, path)


def duplicate(path: str, value: Any) -> Cause:
    """Return the cause `Duplicate value: <value>`."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", path)


def forbidden(path: str, detail: str) -> Cause:
    """Return the cause `Forbidden: <detail>`."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def not_found(path: str, value: Any) -> Cause:
    """Return the cause `Not found: <value>`: a reference inside the object that leads nowhere."""
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}", path)


def too_long(path: str, most: int) -> Cause:
    """Return the cause `Too long: may not be more than <most> bytes`."""
    text = f"may not be more than {most} bytes" if most >= 0 else "value is too long"
    return Cause("FieldValueTooLong", f"Too long: {text}", path)


def too_many(path: str, count: int, most: int) -> Cause:
    """Return the cause `Too many: <count>: must have at most <most> items`."""
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", path)


def one_of(owner: Mapping[str, Any], path: str, field: str, supported: Iterable[str]) -> Iterator[Cause]:
    """Yield a cause when an enumerated field has a value that is not supported; absent and empty are fine."""
    value = owner.get(field)
    if value and value not in supported:
        yield unsupported(f"{path}.{field}" if path else field, value, supported)


def non_negative(owner: Mapping[str, Any], path: str, *fields: str) -> Iterator[Cause]:
    """Yield a cause for every numeric field below 0."""
    for field in fields:
        if (owner.get(field) or 0) < 0:
            yield invalid(f"{path}.{field}" if path else field, owner[field], NON_NEGATIVE)
