"""Equal JSON values among many, found by hash: a body of 3 MiB has room for 300,000 that differ."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any


def token(value: Any) -> Hashable:
    """Return what equal values have alike, and values that differ, `1` and `true` among them, have not."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else (type(value), value)


def repeated(values: Iterable[Any]) -> frozenset[int]:
    """Return the places of the values that an equal one stands in front of."""
    first: dict[Hashable, int] = {}
    return frozenset(at for at, value in enumerate(values) if first.setdefault(token(value), at) != at)
