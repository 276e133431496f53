"""A request is passed on to another server, of an API group or in a pod, and the answer comes back as it arrives.

Watches, logs and the like are streamed; `Upgrade` other than WebSocket becomes a tunnel, WebSockets are relayed message
by message.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from trainshed.cluster.apiserver import callbacks
from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.aggregation import Aggregation, Remote, identity, passed_on
from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.apiserver.http import Answer, Disconnected, Incoming
from trainshed.cluster.apiserver.streams.protocol import EXTENSION, Upgrade
from trainshed.cluster.backend import ByteStream
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import section
from trainshed.kube.wire.asgi import Header, Receive, Send

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.outgoing import Exchange, Head

ANSWER_SECONDS = 60.0
"""How long a server may take to begin its answer: upstream's `--request-timeout`. Watches begin theirs at once."""
_HOP_BY_HOP = (
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
)
UNAVAILABLE = "service unavailable"


class Forwarded(msgspec.Struct, frozen=True):
    """A request for another server.

    Attributes:
        request: as it came.
        host: the server's name, also in its certificate.
        path: what is asked for there, not escaped.
        told: headers that it gets besides those of the request.
        connect: opens a connection, with what its certificate has to be trusted by, None for HTTP without TLS. Raises
            CallFailed, OSError and `ApiError`.
        as_status: whether a server that cannot be reached is told of by a Status, and not by text.
    """

    request: Incoming
    host: str
    path: str
    told: Sequence[Header]
    connect: Callable[[], Awaitable[tuple[ByteStream, ssl.SSLContext | None]]]
    as_status: bool = False


class Unreachable(Exception):
    """The server was not reached, or broke off before it answered; the text is the answer's."""


def aggregated(
    core: Core, aggregation: Aggregation, request: Incoming, remote: Remote, user: User
) -> Forwarded:
    """Return a request for the API server of a group, by a user who may make it."""

    async def connect() -> tuple[ByteStream, ssl.SSLContext | None]:
        if not remote.available:
            raise Unreachable(UNAVAILABLE)
        return await callbacks.connect(core, remote.spec), aggregation.trust(remote)

    # As it was decoded to be authorized: not what another server might read out of other escapes.
    return Forwarded(request, remote.host, request.path, identity(user), connect)


def escaped(path: str) -> str:
    """Return a path as a request or a header may have it: it was decoded, and may hold anything, ends of lines too."""
    return quote(path, safe="/:@!$&'()*+,;=~")


async def forward(asked: Forwarded, receive: Receive, send: Send) -> None:
    """Answer an HTTP request completely. Raises `ApiError` and `Disconnected` only before anything was sent.

    Raises:
        Unreachable: 503, before anything was sent.
    """
    request = asked.request
    offer = section(request.scope, "extensions").get(EXTENSION)
    body = b"" if isinstance(offer, Upgrade) else await request.body()
    headers = [*passed_on(list(request.scope["headers"])), (b"content-length", str(len(body)).encode())]
    if isinstance(offer, Upgrade):
        headers = [*headers[:-1], (b"connection", b"Upgrade")]
    else:
        headers = [
            *(header for header in headers if header[0].lower() != b"upgrade"),
            (b"connection", b"close"),
        ]
    async with _exchange(asked) as exchange:
        head = await _head(exchange, asked, headers, body)
        if head.status == 101:
            if not isinstance(offer, Upgrade):
                raise Unreachable("error trying to reach service: unexpected upgrade")
            connection = await offer.accept(_answered(head))
            try:
                await _pipe(
                    (connection.read, exchange.write),
                    (exchange.read, connection.write),
                )
            finally:
                await connection.close()
            return
        await _stream(head, exchange, receive, send)


@asynccontextmanager
async def _exchange(asked: Forwarded) -> AsyncIterator[Exchange]:
    from trainshed.cluster.apiserver.outgoing import CallFailed, Exchange

    try:
        stream, trust = await asked.connect()
    except (CallFailed, OSError, ApiError) as error:
        raise _unreachable(asked, error) from error
    try:
        yield Exchange(stream, trust, asked.host)
    finally:
        await stream.close()


async def _head(exchange: Exchange, asked: Forwarded, headers: list[Header], body: bytes) -> Head:
    from trainshed.cluster.apiserver.outgoing import CallFailed

    query = asked.request.scope.get("query_string", b"").decode("latin-1")
    path = escaped(asked.path)
    target = f"{path}?{query}" if query else path
    whole = [(b"host", asked.host.encode()), *asked.told, *headers]
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await exchange.send(asked.request.method, target, whole, body)
    except TimeoutError as error:
        text = "Timeout: request did not complete within the allotted timeout"
        raise ApiError(504, "Timeout", text) from error
    except (CallFailed, OSError) as error:
        raise _unreachable(asked, error) from error


def _unreachable(asked: Forwarded, error: Exception) -> Exception:
    why = error.message if isinstance(error, ApiError) else str(error) or type(error).__name__
    text = f"error trying to reach service: {why}"
    return ApiError(503, "ServiceUnavailable", text) if asked.as_status else Unreachable(text)


def _answered(head: Head) -> list[Header]:
    return [(name, value) for name, value in head.headers if name not in _HOP_BY_HOP]


async def _stream(head: Head, exchange: Exchange, receive: Receive, send: Send) -> None:
    """Send the answer as it comes, until it ends or the client hangs up."""

    async def pump() -> None:
        await send({"type": "http.response.start", "status": head.status, "headers": _answered(head)})
        async for piece in exchange.body():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def hung_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    await _first(pump(), hung_up())


async def _pipe(*ways: tuple[Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]]]) -> None:
    """Copy bytes each way until one of them ends."""

    async def copy(read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
        while data := await read():
            await write(data)

    await _first(*(copy(read, write) for read, write in ways))


async def _first(*ways: Awaitable[None]) -> None:
    """Return when one of these ends; connections that break are an end like others."""
    from trainshed.cluster.apiserver.outgoing import CallFailed

    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                with contextlib.suppress(CallFailed, OSError):
                    task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def unavailable(error: Unreachable) -> Answer:
    """Return the answer to a request whose server cannot be asked: text, as upstream's."""
    answer = Answer.text(f"{error}\n", status=503)
    return Answer(
        answer.body,
        status=503,
        content_type=answer.content_type,
        headers=((b"x-content-type-options", b"nosniff"),),
    )


async def forward_websocket(asked: Forwarded, receive: Receive, send: Send) -> None:
    """Relay a WebSocket. Raises `ApiError` and `Unreachable` only before it is accepted."""
    from trainshed.cluster.apiserver.websocketclient import Relay

    if (await receive())["type"] != "websocket.connect":
        raise Disconnected
    async with _exchange(asked) as exchange:
        kept = [
            header
            for header in passed_on(list(asked.request.scope["headers"]))
            if not header[0].lower().startswith(b"sec-websocket-") and header[0].lower() != b"upgrade"
        ]
        relay = Relay(exchange)
        offered = asked.request.scope.get("subprotocols") or ()
        head = await _head(exchange, asked, [*kept, *relay.opening(offered)], b"")
        if head.status != 101:
            body = await exchange.whole()
            text = body[:1024].decode(errors="replace").strip()
            raise ApiError(
                head.status if head.status >= 400 else 502, "", text or "unable to upgrade connection"
            )
        await send({"type": "websocket.accept", "subprotocol": relay.chosen(head.headers)})
        await _first(relay.inbound(receive), relay.outbound(send))
