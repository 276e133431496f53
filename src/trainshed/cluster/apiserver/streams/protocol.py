"""HTTP/1.1 connections that an application may take over: `Upgrade: SPDY/3.1`, which ASGI cannot express.

`UpgradeProtocol` is uvicorn's HTTP protocol with one addition: a request that asks for an upgrade other than
WebSocket reaches the application as an ordinary `http` scope with
`scope["extensions"]["trainshed.upgrade"]`, an `Upgrade`. Awaiting `accept(headers)` answers 101 and returns
the connection as a `RawConnection`; answering in the ordinary way declines, and the connection closes.

Start uvicorn with `**server_options()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from trainshed.cluster.apiserver import connections
from trainshed.cluster.apiserver.connections import GuardedProtocol

EXTENSION = "trainshed.upgrade"
_READ_LIMIT = 64 * 1024


def server_options() -> dict[str, Any]:
    """Return the uvicorn settings that streams need.

    Pings are the client's business: a client that is slow to read (`kubectl exec … | less`) must not be cut.
    """
    return {
        "http": UpgradeProtocol,
        "ws": _websocket,
        "ws_ping_interval": None,
        "ws_per_message_deflate": False,
    }


def _websocket(*arguments: Any, **options: Any) -> Any:
    """Return uvicorn's WebSocket protocol: most control planes never see one, so its import waits."""
    from trainshed.cluster.apiserver.streams.wsprotocol import GuardedWebSocket

    return GuardedWebSocket(*arguments, **options)


class ByteChannel(Protocol):
    """A two-way stream of bytes: a raw connection, or a tunnel in a WebSocket."""

    async def read(self) -> bytes:
        """Return the next bytes; empty when the peer has gone."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the peer is slow. Does nothing once it has gone."""
        ...

    async def close(self) -> None: ...


class RawConnection:
    """A connection after 101, with what the peer sends buffered up to 64 KiB before it is slowed down."""

    def __init__(self, protocol: UpgradeProtocol, reader: asyncio.StreamReader) -> None:
        self._protocol = protocol
        self._reader = reader

    async def read(self) -> bytes:
        """Return the next bytes; empty when the peer has gone."""
        try:
            return await self._reader.read(_READ_LIMIT)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the peer is slow. Does nothing once it has gone."""
        if self._protocol.transport.is_closing():
            return
        self._protocol.transport.write(data)
        await self._protocol.flow.drain()

    async def close(self) -> None:
        """Close after sending what is still buffered."""
        self._protocol.transport.close()


class Upgrade:
    """A request's offer to leave HTTP."""

    def __init__(self, protocol: UpgradeProtocol, name: str) -> None:
        self.name = name
        self._protocol = protocol

    async def accept(self, headers: Iterable[tuple[bytes, bytes]] = ()) -> RawConnection:
        """Answer 101 with these headers besides Upgrade and Connection, and return the connection."""
        return self._protocol.switch(self.name, headers)


class UpgradeProtocol(GuardedProtocol):
    """uvicorn's HTTP/1.1 protocol, guarded, plus raw upgrades."""

    _reader: asyncio.StreamReader | None = None
    _upgrading = False

    def on_headers_complete(self) -> None:
        upgrade = self._get_upgrade()
        if not self.parser.should_upgrade() or upgrade is None or self._should_upgrade():
            super().on_headers_complete()
            return
        self._upgrading = True
        offer = Upgrade(self, upgrade.decode("latin-1"))
        extensions: dict[str, Any] = {EXTENSION: offer}
        self.scope["extensions"] = extensions
        super().on_headers_complete()
        # What follows on this connection is no HTTP, whether the application accepts or not.
        self.cycle.keep_alive = False

    def _unsupported_upgrade_warning(self) -> None:
        """Stay silent: the application decides."""

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._reader.feed_data(data)
        elif not self._upgrading or not self._message_complete():
            super().data_received(data)
        # Else the client talks before it was told that it may: RFC 9110 §7.8 has it wait for 101.

    def _message_complete(self) -> bool:
        return self.cycle is not None and not self.cycle.more_body

    def switch(self, name: str, headers: Iterable[tuple[bytes, bytes]]) -> RawConnection:
        """Answer 101 and hand the connection over; the HTTP cycle counts as answered."""
        reader = asyncio.StreamReader(limit=_READ_LIMIT, loop=self.loop)
        reader.set_transport(self.transport)  # pauses reading when the buffer is full
        lines = [b"HTTP/1.1 101 Switching Protocols\r\n", b"upgrade: ", name.encode("latin-1"), b"\r\n"]
        lines.append(b"connection: Upgrade\r\n")
        for key, value in headers:
            lines += [key, b": ", value, b"\r\n"]
        lines.append(b"\r\n")
        self._reader = reader
        self.cycle.response_started = self.cycle.response_complete = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if self.transport.is_closing():
            reader.feed_eof()
        else:
            self.transport.write(b"".join(lines))
        return RawConnection(self, reader)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        # This protocol hears no more of the connection, which goes on to count until it ends.
        websocket: Any = self.transport.get_protocol()
        websocket.on_lost = self.leave

    def unread_seconds(self) -> float:
        return super().unread_seconds() if self._reader is None else connections.UNREAD_UPGRADED_SECONDS

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reader is not None:
            self._reader.feed_eof()
        super().connection_lost(exc)
