"""uvicorn's WebSocket protocol with bounds on what it holds for a client that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.events import Ping, Request

from trainshed.cluster.apiserver import connections
from trainshed.cluster.apiserver.connections import Unread
from trainshed.kube.wire.asgi import CLIENT_CERTIFICATE


class GuardedWebSocket(WSProtocol):
    """What is sent waits while the client does not read, for a while. Neither do answers to its pings pile up: the
    newest alone is answered then (RFC 6455 §5.5.3).
    """

    on_lost: Callable[[], None] | None = None
    _ping: Ping | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._unread = Unread()
        self._certificate = connections.certificate_of(transport)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)  # which makes the scope; the application's task starts later
        if self._certificate:
            self.scope[CLIENT_CERTIFICATE] = self._certificate  # type: ignore[literal-required]

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.begin(self, connections.UNREAD_UPGRADED_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.end()
        ping, self._ping = self._ping, None
        if ping is not None and not self.transport.is_closing():
            super().handle_ping(ping)

    def handle_ping(self, event: Ping) -> None:
        if self.writable.is_set():
            super().handle_ping(event)
        else:
            self._ping = event

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread.end()
        if self.on_lost is not None:
            self.on_lost()
        super().connection_lost(exc)
