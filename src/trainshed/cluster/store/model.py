"""A stored object and a change of one."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, Literal

import msgspec

from trainshed.kube.meta.objects import Object

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

KEPT_DECODED_BYTES = 512 * 1024
"""Bytes of objects that stay decoded, which takes about six times as much. All of a small cluster have to fit: each
request reads the roles, and what is a little too much is decoded over and over."""
LARGE_BYTES = 32 * 1024
"""An object of this size does not stay: a few definitions, read when one of their objects is created, would be half."""


class _Labels(msgspec.Struct):
    labels: Any = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


class _Identity(msgspec.Struct, omit_defaults=True):
    labels: Any = None
    name: Any = None
    namespace: Any = None
    uid: Any = None
    resourceVersion: Any = None
    deletionTimestamp: Any = None
    finalizers: Any = None
    ownerReferences: Any = None


class _Identified(msgspec.Struct):
    metadata: _Identity


_IDENTITY = _Identity.__struct_fields__
_decode = msgspec.json.Decoder(dict).decode
_decode_labelled = msgspec.json.Decoder(_Labelled).decode
_decode_identified = msgspec.json.Decoder(_Identified).decode


class Stored:
    """One version of an object. Immutable, `obj` included: copy before you change it.

    `encoded` is the object's JSON with its resourceVersion. `obj` is decoded from it when asked for, and kept for
    those decoded last, `KEPT_DECODED_BYTES` of them: the others cost their bytes only.
    """

    __slots__ = ("_identity", "_obj", "create_revision", "encoded", "key", "revision")

    def __init__(
        self, key: str, revision: int, create_revision: int, encoded: bytes, obj: Object | None = None
    ) -> None:
        self.key = key
        self.revision = revision
        self.create_revision = create_revision
        self.encoded = encoded
        self._obj = obj
        self._identity: Object | None = None
        if obj is not None:
            if len(encoded) > LARGE_BYTES:
                self._identity = _identity(obj)
            _decoded.add(self)

    @property
    def obj(self) -> Object:
        """The decoded object, shared by all readers."""
        obj = self._obj
        if obj is None:
            self._obj = obj = _decode(self.encoded)
            _decoded.add(self)
        return obj

    @property
    def labels(self) -> dict[str, str] | None:
        """Its labels, found without decoding the rest."""
        if self._obj is not None:
            found = self._obj["metadata"].get("labels")
        elif self._is_large:
            found = self.identity.get("labels")
        else:
            found = _decode_labelled(self.encoded).metadata.labels
        return found if isinstance(found, dict) else None

    @property
    def identity(self) -> Object:
        """What its metadata says of what it is, whose it is and whether it goes, found without decoding the rest."""
        if self._obj is not None:
            metadata: Object = self._obj["metadata"]
            return metadata
        if self._identity is not None:
            return self._identity
        found: Object = msgspec.to_builtins(_decode_identified(self.encoded).metadata)
        if self._is_large:
            self._identity = found
        return found

    @property
    def _is_large(self) -> bool:
        """Whether to look for something in it takes so long that what was found is kept."""
        return len(self.encoded) > LARGE_BYTES

    def release(self) -> None:
        """Forget the decoded form; it comes back when asked for."""
        self._obj = None

    def move(self) -> None:
        """Put the bytes where the heap has room for them now: beside others, not alone on a page of many that went."""
        self.encoded = bytes(memoryview(self.encoded))

    def __repr__(self) -> str:
        return f"Stored({self.key}@{self.revision})"


def _identity(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    return {name: metadata[name] for name in _IDENTITY if metadata.get(name) is not None}


class _Decoded:
    """What was decoded last; the writer's thread decodes too."""

    def __init__(self) -> None:
        self._kept: deque[Stored] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, stored: Stored) -> None:
        if len(stored.encoded) > LARGE_BYTES:
            stored.release()
            return
        with self._lock:
            self._kept.append(stored)
            self._bytes += len(stored.encoded)
            while self._bytes > KEPT_DECODED_BYTES and len(self._kept) > 1:
                oldest = self._kept.popleft()
                self._bytes -= len(oldest.encoded)
                oldest.release()

    def release_all(self) -> None:
        with self._lock:
            for stored in self._kept:
                stored.release()
            self._kept.clear()
            self._bytes = 0


_decoded = _Decoded()


def release_all() -> None:
    """Forget the decoded form of every object; each comes back when asked for."""
    _decoded.release_all()


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
