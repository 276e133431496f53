"""Answers of handlers as messages of ASGI: compressed, in pieces, or for as long as a stream goes on."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

from trainshed.cluster.apiserver.http import (
    PIECE_BYTES,
    Answer,
    Incoming,
    LateAnswer,
    Pieces,
    PiecesAnswer,
    Streaming,
)
from trainshed.cluster.apiserver.uids import new_uid
from trainshed.kube.wire.asgi import Header, Receive, Send

_GZIP_FROM_BYTES = 128 * 1024
_THREAD_GZIP_FROM_BYTES = 1024 * 1024
LAST_CHUNK = {"type": "http.response.body", "body": b"", "more_body": False}


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
    if isinstance(answer, PiecesAnswer):
        body = answer.pieces
    else:
        body = Pieces.of(await answer.encoded(request) if isinstance(answer, LateAnswer) else answer.body)
    extra = list(answer.headers)
    if body.length > _GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        if body.length > _THREAD_GZIP_FROM_BYTES:
            body = await asyncio.to_thread(_compressed, body)  # zlib lets other threads run
        else:
            body = _compressed(body)
        extra.append((b"content-encoding", b"gzip"))
    headers = _headers(request, answer.content_type, extra)
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(body.length).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    left = body.length
    for piece in body:
        left -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        if left:  # encrypting a long list does not keep everybody else waiting
            await request.give_way()


def _compressed(body: Pieces) -> Pieces:
    compressor = zlib.compressobj(1, wbits=31)  # as gzip does, but for the time in its head
    parts = [compressor.compress(piece) for piece in body]
    return Pieces.of(b"".join((*parts, compressor.flush())))


async def send_stream(request: Incoming, stream: Streaming, receive: Receive, send: Send) -> None:
    """Send chunks as they come until they end or the client hangs up, which closes their source."""
    headers = _headers(request, stream.content_type, ())

    async def pump() -> None:
        await send({"type": "http.response.start", "status": stream.status, "headers": headers})
        try:
            async for chunk in stream.chunks:
                for piece in Pieces.of(chunk):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if len(piece) >= PIECE_BYTES:
                        await request.give_way()
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
