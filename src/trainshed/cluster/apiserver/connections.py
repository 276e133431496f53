"""HTTP/1.1 connections that cost little until they have asked for something.

Anybody who reaches the socket may connect, so what a connection may hold before its request is known is bounded: the
bytes and the number of headers of a request head, the time that it takes, the body of a request that was answered
already, and the connections of one address. Likewise with an answer that the client does not read: the server holds a
buffer of it, for a while.

Source of the figures: net/http and kube-apiserver (`DefaultMaxHeaderBytes`, `ReadHeaderTimeout`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any, Protocol

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trainshed.cluster.apiserver.http import encode_json
from trainshed.kube.meta.errors import method_not_allowed
from trainshed.kube.wire.asgi import CLIENT_CERTIFICATE

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 1024 * 1024 + 4096
"""Of the request line and the headers: 1 MiB, and what Go's server reads ahead."""
MAX_HEADERS = 1_000
HEAD_SECONDS = 32.0
"""How long a request head may take from the first byte, or on a new connection from its start."""
MAX_UNREAD_BYTES = 256 * 1024
"""How much more of a body is read, and thrown away, once its request is answered."""
UNREAD_SECONDS = 60.0
"""How long a client may leave an answer unread that waits for it: upstream's `--request-timeout`."""
UNREAD_STREAM_SECONDS = 900.0
"""The same for a watch and a log that is followed: somebody may be looking at a page of it."""
UNREAD_UPGRADED_SECONDS = 4 * 3600.0
"""The same for exec, attach and port-forward, which a pager or a stopped client may hold up: the kubelet's
`streamingConnectionIdleTimeout`."""
PER_PEER = 2_048
_LINGER_SECONDS = 1.0
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 35\r\nconnection: close\r\n\r\n431 Request Header Fields Too Large"
)
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} /")
"""How a request begins whose method is a word, though none that the parser knows."""


class Peers:
    """The connections of each address. At most `limit` of them: one more takes the place of the one that has been
    idle for longest, or is refused when all are at work."""

    def __init__(self, limit: int = PER_PEER) -> None:
        self._limit = limit
        self._count: dict[str, int] = {}
        self._idle: dict[str, dict[GuardedProtocol, None]] = {}

    def opened(self, connection: GuardedProtocol) -> None:
        """Count a new connection, which is idle, and hang up on one when there are too many."""
        peer = connection.peer
        self._count[peer] = self._count.get(peer, 0) + 1
        idle = self._idle.setdefault(peer, {})
        if self._count[peer] > self._limit:
            next(iter(idle), connection).transport.abort()
        idle[connection] = None

    def closed(self, connection: GuardedProtocol) -> None:
        """Forget a connection."""
        peer = connection.peer
        self.working(connection)
        self._count[peer] -= 1
        if not self._count[peer]:
            del self._count[peer], self._idle[peer]

    def working(self, connection: GuardedProtocol) -> None:
        """Note that a connection has asked for something."""
        self._idle[connection.peer].pop(connection, None)

    def idle(self, connection: GuardedProtocol) -> None:
        """Note that a connection has its answer."""
        self._idle[connection.peer][connection] = None


class Unread:
    """Hangs up on a client that for too long reads nothing of what waits for it."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: Connection, seconds: float) -> None:
        """Note that something waits, for that long at most."""
        if self._timer is None:
            self._timer = connection.loop.call_later(seconds, self._hang_up, connection, seconds)

    def end(self) -> None:
        """Note that the client reads, or has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hang_up(self, connection: Connection, seconds: float) -> None:
        scope = connection.scope
        log.warning(
            "client hung up on: it has read nothing for %.0f s of the answer to %s %s",
            seconds,
            scope.get("method", "GET"),
            scope["path"],
            extra={"client": connection.client[0] if connection.client else ""},
        )
        connection.transport.abort()


class Connection(Protocol):
    """What uvicorn's protocols have in common."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    client: Any
    scope: Any


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with bounds on what it holds for a peer that has not asked yet."""

    peer = ""
    _peers: Peers | None = None
    _in_head = True
    _begun = False
    _head_bytes = 0
    _named_bytes = 0
    _received = b""
    _refused = False
    _unwanted = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._unread = Unread()
        self.peer = self.client[0] if self.client else ""
        self._certificate = certificate_of(transport)
        self._peers = _peers_of(self.server_state)
        self._peers.opened(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        self._unread.end()
        self.leave()
        super().connection_lost(exc)

    def leave(self) -> None:
        """Count no more: the connection is gone, whatever it was used for in the end."""
        if self._peers is not None:
            self._peers.closed(self)
            self._peers = None

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._received = data
        super().data_received(data)
        self._received = b""
        if self._in_head and not self.transport.is_closing():
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse()
            elif self._head_bytes or self._begun:
                self._expect_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._certificate:
            self.scope[CLIENT_CERTIFICATE] = self._certificate  # type: ignore[literal-required]
        self._begun = True
        self._named_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._named_bytes += len(name) + len(value)
        if len(self.headers) > MAX_HEADERS or len(self.url) + self._named_bytes > MAX_HEAD_BYTES:
            self._refused = True
            raise ValueError  # for the parser, which then has `send_400_response` called

    def on_headers_complete(self) -> None:
        self._in_head = self._begun = False
        self._head_bytes = self._unwanted = 0
        self._head_arrived()
        if self._peers is not None:
            self._peers.working(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None and self.cycle.response_complete:
            self._unwanted += len(body)
            if self._unwanted > MAX_UNREAD_BYTES:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        if self.cycle is not None and self.cycle.response_complete:
            self._head_arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._peers is None or self.transport.is_closing() or not self.cycle.response_complete:
            return
        self._peers.idle(self)
        if not self._in_head:  # the rest of a body that nobody wants any more
            self._expect_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.begin(self, self.unread_seconds())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.end()

    def unread_seconds(self) -> float:
        """Return how long the answer may wait for the client."""
        return UNREAD_STREAM_SECONDS if _is_stream(self.scope) else UNREAD_SECONDS

    def send_400_response(self, msg: str) -> None:
        if self._refused:
            self._refuse()
        elif isinstance(sys.exc_info()[1], HttpParserInvalidMethodError) and _METHOD.match(self._received):
            self._refuse_method()
        else:
            super().send_400_response(msg)

    def _refuse_method(self) -> None:
        """Answer 405 and hang up: there is no resource with such a method."""
        body = encode_json(method_not_allowed().status())
        head = "HTTP/1.1 405 Method Not Allowed\r\ncontent-type: application/json\r\n"
        self.transport.write(
            f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        )
        self.transport.close()

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self) -> None:
        """Answer 431 and hang up, also on a peer that goes on sending."""
        self._refused = True
        self.headers = []
        self.transport.write(_TOO_LARGE)
        self.transport.close()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def certificate_of(transport: asyncio.BaseTransport) -> bytes:
    """Return the verified certificate of a connection's client as DER, empty where it has shown none."""
    tls = transport.get_extra_info("ssl_object")
    return (tls.getpeercert(binary_form=True) or b"") if tls is not None else b""


def _is_stream(scope: Any) -> bool:
    """Return whether a request asked for something without end."""
    query = scope.get("query_string", b"")
    return b"watch=" in query or b"follow=" in query


def _peers_of(server_state: Any) -> Peers:
    """Return the addresses that a server knows; all its listeners share them."""
    peers: Peers | None = getattr(server_state, "trainshed_peers", None)
    if peers is None:
        peers = server_state.trainshed_peers = Peers()
    return peers
