"""Watch streams and error bodies as a client reads them.

A watch is newline-separated JSON frames; a chunk may hold part of a frame or many. An `ERROR` frame is the
last one of its stream and becomes an ApiError: 410 says that the resourceVersion is too old.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import msgspec

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object


class WatchEvent(msgspec.Struct, frozen=True):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; `object` is its state after the event."""

    type: str
    object: Object

    @property
    def resource_version(self) -> str:
        """Where a later watch resumes after this event."""
        return str((self.object.get("metadata") or {}).get("resourceVersion", ""))


_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_status = msgspec.json.Decoder(dict[str, object]).decode


async def decode_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of a byte stream; ApiError for an ERROR frame.

    An incomplete last frame is dropped: the connection broke inside it, and a resumed watch sends the event
    again.
    """
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            event = _decode_event(line)
            if event.type == "ERROR":
                raise ApiError.from_status(500, event.object)
            yield event


def status_error(code: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error in a failed response; a body that is no Status (a proxy's page, say) is quoted."""
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        status = {}
    if status.get("kind") != "Status":
        text = body[:200].decode("utf-8", "replace").strip()
        status = {"message": text or f"HTTP {code}", "reason": _REASONS.get(code, "")}
    error = ApiError.from_status(code, status)
    if headers and "retry-after" in headers:
        error.headers.setdefault("Retry-After", headers["retry-after"])
    return error


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
