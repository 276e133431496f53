"""Watch streams and error bodies as a client reads them.

An `ERROR` frame is the last one of a watch and becomes an ApiError: 410 says that the resourceVersion is too old.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import msgspec

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.watchframe import FrameSplitter, WatchEvent

_decode_status = msgspec.json.Decoder(dict[str, object]).decode


async def decode_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of a byte stream; ApiError for an ERROR frame, ValueError for what is no event.

    An incomplete last frame is dropped: the connection broke inside it, and a resumed watch sends the event
    again.
    """
    splitter = FrameSplitter()
    async for chunk in chunks:
        for event in splitter.feed(chunk):
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
