"""A stored object and a change of one."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal

import msgspec

from trainshed.kube.meta.objects import Object

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

KEPT_DECODED = 500
"""How many objects stay decoded, which takes about six times their bytes."""


class _Metadata(msgspec.Struct):
    labels: Any = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(dict).decode
_decode_labelled = msgspec.json.Decoder(_Labelled).decode
_decoded: deque[Stored] = deque()


class Stored:
    """One version of an object. Immutable, `obj` included: copy before you change it.

    `encoded` is the object's JSON with its resourceVersion. `obj` is decoded from it when asked for, and kept for the
    `KEPT_DECODED` objects that were decoded last: the others cost their bytes only.
    """

    __slots__ = ("_obj", "create_revision", "encoded", "key", "revision")

    def __init__(
        self, key: str, revision: int, create_revision: int, encoded: bytes, obj: Object | None = None
    ) -> None:
        self.key = key
        self.revision = revision
        self.create_revision = create_revision
        self.encoded = encoded
        self._obj = obj
        if obj is not None:
            self._keep()

    @property
    def obj(self) -> Object:
        """The decoded object, shared by all readers."""
        obj = self._obj
        if obj is None:
            obj = self._obj = _decode(self.encoded)
            self._keep()
        return obj

    @property
    def labels(self) -> dict[str, str] | None:
        """Its labels, found without decoding the rest."""
        if self._obj is not None:
            found = self._obj["metadata"].get("labels")
        else:
            found = _decode_labelled(self.encoded).metadata.labels
        return found if isinstance(found, dict) else None

    def _keep(self) -> None:
        _decoded.append(self)
        if len(_decoded) > KEPT_DECODED:
            try:
                _decoded.popleft()._obj = None
            except IndexError:
                pass  # the writer's thread, which decodes too, was faster

    def release(self) -> None:
        """Forget the decoded form; it comes back when asked for."""
        self._obj = None

    def __repr__(self) -> str:
        return f"Stored({self.key}@{self.revision})"


class StoreEvent:
    """A committed change: `stored` is the state it led to (for DELETED the last state, at a new revision)."""

    __slots__ = ("key", "previous", "revision", "stored", "type")

    def __init__(self, type_: EventType, stored: Stored, previous: Stored | None) -> None:
        self.type = type_
        self.key = stored.key
        self.revision = stored.revision
        self.stored = stored
        self.previous = previous

    def __repr__(self) -> str:
        return f"StoreEvent({self.type} {self.key}@{self.revision})"


def prefixes(key: str) -> list[str]:
    """Return every prefix of `key` that ends in a slash: where watchers of it may wait."""
    out = []
    at = key.find("/")
    while at >= 0:
        out.append(key[: at + 1])
        at = key.find("/", at + 1)
    return out
