"""Answers of handlers as messages of ASGI: compressed, in pieces, or for as long as a stream goes on."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence

from trainshed.cluster.apiserver.http import (
    Answer,
    Incoming,
    LateAnswer,
    Streaming,
)
from trainshed.cluster.apiserver.uids import new_uid
from trainshed.kube.wire.asgi import Header, Receive, Send

_GZIP_FROM_BYTES = 128 * 1024
_THREAD_GZIP_FROM_BYTES = 1024 * 1024
LAST_CHUNK = {"type": "http.response.body", "body": b"", "more_body": False}
_PIECE_BYTES = 256 * 1024


def _headers(request: Incoming, content_type: str, extra: Sequence[Header]) -> list[Header]:
    headers: list[Header] = [
        (b"content-type", content_type.encode()),
        (b"audit-id", (new_uid() if request.trail is None else request.trail.id).encode()),
        *extra,
    ]
    if not any(name == b"cache-control" for name, _ in extra):
        headers.append((b"cache-control", b"no-cache, private"))
    for text in request.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{quoted}"'.encode()))
    return headers


async def send_answer(request: Incoming, answer: Answer, send: Send) -> None:
    """Send a whole answer, compressed where that is asked for and worth it, a long one in pieces."""
    body = await answer.encoded(request) if isinstance(answer, LateAnswer) else answer.body
    extra = list(answer.headers)
    if len(body) > _GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        if len(body) > _THREAD_GZIP_FROM_BYTES:
            body = await asyncio.to_thread(gzip.compress, body, 1)  # zlib lets other threads run
        else:
            body = gzip.compress(body, 1)
        extra.append((b"content-encoding", b"gzip"))
    headers = _headers(request, answer.content_type, extra)
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if len(body) <= _PIECE_BYTES:
        await send({"type": "http.response.body", "body": body})
        return
    # In pieces, so that encrypting a long list does not keep everybody else waiting.
    view = memoryview(body)
    for start in range(0, len(body), _PIECE_BYTES):
        more = start + _PIECE_BYTES < len(body)
        piece = bytes(view[start : start + _PIECE_BYTES])
        await send({"type": "http.response.body", "body": piece, "more_body": more})
        await asyncio.sleep(0)


async def send_stream(request: Incoming, stream: Streaming, receive: Receive, send: Send) -> None:
    """Send chunks as they come until they end or the client hangs up, which closes their source."""
    headers = _headers(request, stream.content_type, ())

    async def pump() -> None:
        await send({"type": "http.response.start", "status": stream.status, "headers": headers})
        try:
            async for chunk in stream.chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            close = getattr(stream.chunks, "aclose", None)
            if close is not None:
                await close()
        await send(LAST_CHUNK)

    pumping = asyncio.ensure_future(pump())
    listening = asyncio.ensure_future(_hung_up(receive))
    try:
        await asyncio.wait((pumping, listening), return_when=asyncio.FIRST_COMPLETED)
        if pumping.done():
            pumping.result()
    except OSError:
        pass  # the client went away while we were sending
    finally:
        for task in (pumping, listening):
            task.cancel()
        await asyncio.gather(pumping, listening, return_exceptions=True)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
