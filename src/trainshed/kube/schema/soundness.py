"""Which schemas of CRDs are known to be sound.

One of a job kind has a thousand places, 10 ms, and would be looked at with every write of its definition. What nothing
was wrong with before is known by its digest, whatever the order of its fields.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from trainshed.kube.meta.errors import Cause
from trainshed.kube.schema.crd_schema import schema_causes

MOST_KNOWN = 1024
"""Digests of 32 bytes."""
_known: dict[bytes, None] = {}
_encode = msgspec.json.Encoder(order="deterministic").encode


def unsound(schema: Any, path: str) -> list[Cause]:
    """Return what is wrong with an `openAPIV3Schema` whose place is `path`."""
    digest = _digest(schema)
    if digest in _known:
        return []
    found = list(schema_causes(schema, path))
    if not found:
        _remember(digest)
    return found


def vouch(schema: Any) -> None:
    """Take a schema as sound that was checked when it was written: one that is shipped, not one that a user sends."""
    _remember(_digest(schema))


def _digest(schema: Any) -> bytes:
    return hashlib.blake2b(_encode(schema), digest_size=32).digest()


def _remember(digest: bytes) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[digest] = None
