"""WebSockets over ASGI events: choosing a subprotocol, reading messages, and tunnelling bytes."""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.kube.meta.errors import bad_request
from trainshed.kube.wire.asgi import Message, Receive, Send


class WebSocket:
    """An accepted WebSocket. Sending after the peer has left does nothing."""

    def __init__(self, receive: Receive, send: Send, subprotocol: str) -> None:
        self._receive = receive
        self._send = send
        self._closed = False
        self.subprotocol = subprotocol

    async def read(self) -> bytes | str | None:
        """Return the next message, text as str; None when the peer has left."""
        while not self._closed:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                data = message.get("bytes")
                return data if data is not None else str(message.get("text") or "")
            if message["type"] == "websocket.disconnect":
                self._closed = True
        return None

    async def send(self, data: bytes | str) -> None:
        """Send one binary or text message; waits while the peer is slow."""
        await self._deliver(
            {"type": "websocket.send", "text": data}
            if isinstance(data, str)
            else {"type": "websocket.send", "bytes": data}
        )

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Start the closing handshake."""
        await self._deliver({"type": "websocket.close", "code": code, "reason": reason})
        self._closed = True

    async def _deliver(self, message: Message) -> None:
        if self._closed:
            return
        try:
            await self._send(message)
        except OSError:  # ASGI servers raise a kind of OSError when the client has gone
            self._closed = True


def choose(offered: Sequence[str], supported: Sequence[str]) -> str:
    """Return the first offered subprotocol that is supported; empty when none was offered.

    Raises:
        ApiError: 400 when only unknown ones were offered.
    """
    if not offered:
        return ""
    for name in offered:
        if name in supported:
            return name
    raise bad_request(
        f"none of the subprotocols {', '.join(offered)} is supported: use one of {', '.join(supported)}"
    )


async def accept(receive: Receive, send: Send, subprotocol: str) -> WebSocket:
    """Complete the handshake; the subprotocol is echoed unless it is empty."""
    message = await receive()
    if message["type"] == "websocket.connect":
        await send({"type": "websocket.accept", "subprotocol": subprotocol or None})
    return WebSocket(receive, send, subprotocol)


class Tunnel:
    """A byte stream in binary messages, whose borders mean nothing (`ByteChannel`)."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """Return the next bytes; empty when the peer has gone."""
        while True:
            message = await self._socket.read()
            if message is None:
                return b""
            if message:
                return message.encode() if isinstance(message, str) else message

    async def write(self, data: bytes) -> None:
        """Send bytes as one message."""
        await self._socket.send(data)

    async def close(self) -> None:
        """Close with the code for a normal end."""
        await self._socket.close()
