"""Frames of a watch stream: one JSON document per line, `{"type": ..., "object": ...}`.

An event fans out to many watchers, so the object's bytes are encoded once by the store and only wrapped here.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, metadata_of

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events; the server writes it, client-go >= 1.35 waits for it."""

_PREFIX = {
    kind: b'{"type":"' + kind.encode() + b'","object":'
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}


class WatchEvent(msgspec.Struct, frozen=True):
    """One event: `object` is the state after it, for ERROR a `Status`, for BOOKMARK only a resourceVersion."""

    type: str
    object: Object

    @property
    def resource_version(self) -> str:
        """Where a later watch resumes after this event."""
        return str(metadata_of(self.object).get("resourceVersion", ""))


_decode_event = msgspec.json.Decoder(WatchEvent)
_encode = msgspec.json.Encoder().encode


def frame(kind: EventType, encoded: bytes) -> bytes:
    """Return the line for an object that is already JSON."""
    return _PREFIX[kind] + encoded + b"}\n"


def encode(kind: EventType, obj: Any) -> bytes:
    """Return the line for an object."""
    return _PREFIX[kind] + _encode(obj) + b"}\n"


def bookmark_of(
    api_version: str,
    kind: str,
    resource_version: str,
    *,
    initial_events_end: bool = False,
    typed: bool = False,
) -> Object:
    """Return the object of a bookmark, which tells a watcher how far it is; only those that ask for it get one.

    Args:
        typed: the kind is built in: what Go always writes of its metadata is there.
    """
    metadata: dict[str, Any] = {"resourceVersion": resource_version}
    if typed:
        metadata["creationTimestamp"] = None
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


def error(failure: ApiError) -> bytes:
    """Return the line that ends a watch with a reason; the stream closes after it."""
    return encode("ERROR", failure.status())


def decode(line: bytes) -> WatchEvent:
    """Return the event of one line.

    Raises:
        ValueError: the line is no event.
    """
    try:
        return _decode_event.decode(line)
    except msgspec.MsgspecError as failure:
        raise ValueError(f"a watch line that is no event: {failure}") from failure


class FrameSplitter:
    """Cuts a byte stream into events; network reads may end anywhere inside a line."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[WatchEvent]:
        """Return the events that `chunk` completes, oldest first.

        Raises:
            ValueError: a complete line is no event.
        """
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(tail)
            return []
        whole = b"".join((*self._rest, head))
        self._rest = [tail] if tail else []
        return [decode(line) for line in whole.split(b"\n") if line.strip()]
