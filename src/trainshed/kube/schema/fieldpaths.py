"""Paths to fields of a schema: `.spec.size`, `.spec.labels['a.b']`.

Source: `ValidFieldPath` of `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`, texts included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PART = re.compile(r"'(?:[^'\\]|\\.)+'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {**dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)), "'": "'", "\\": "\\"}


def field_schema(path: str, schema: Mapping[str, Any], *, keys: bool = True) -> tuple[str, Mapping[str, Any]]:
    """Return the first step of a path and the schema of what it leads to; `keys` allows `['x']`.

    Raises:
        ValueError: it leads nowhere, in upstream's words.
    """
    parts = iter(_PART.findall(path))
    first, place = "", schema
    for part in parts:
        if part == "[":
            if not keys:
                raise ValueError("array notation is not allowed")
            name = _quoted(_next(parts))
        elif part == ".":
            name = _next(parts)
        else:
            raise ValueError(f"expected [ or . but got: {part}")
        place = _below(place, name)
        first = first or name
        if part == "[" and (closed := _next(parts)) != "]":
            raise ValueError(f"expected ] but got {closed}")
    return first, place


def _next(parts: Iterator[str]) -> str:
    try:
        return next(parts)
    except StopIteration:
        raise ValueError("unexpected end of JSON path") from None


def _quoted(part: str) -> str:
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise ValueError(f"expected single quoted string but got {part}")
    for escape in _ESCAPED.finditer(part[1:-1]):
        if escape[1] not in _ESCAPES:
            raise ValueError(f"invalid string literal: invalid escape char {escape[0]}")
    return _ESCAPED.sub(lambda escape: _ESCAPES[escape[1]], part[1:-1])


def _below(place: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    properties, additional = place.get("properties"), place.get("additionalProperties")
    child = (properties or {}).get(name) if properties else additional
    if (properties is None and additional is None) or not isinstance(child, Mapping):
        raise ValueError("does not refer to a valid field")
    return child
