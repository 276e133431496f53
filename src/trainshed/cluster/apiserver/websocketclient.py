"""The client's side of a WebSocket (RFC 6455) over a connection that is a tunnel already."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

from trainshed.cluster.apiserver.outgoing import CallFailed, Exchange
from trainshed.kube.wire.asgi import Header, Receive, Send


class Relay:
    """Messages between an ASGI WebSocket and a server."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._connection = Connection(ConnectionType.CLIENT)

    def opening(self, subprotocols: Sequence[str]) -> list[Header]:
        """Return the headers of the opening handshake."""
        out = [
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-key", base64.b64encode(os.urandom(16))),
        ]
        if subprotocols:
            out.append((b"sec-websocket-protocol", ", ".join(subprotocols).encode("latin-1")))
        return out

    def chosen(self, headers: Sequence[Header]) -> str | None:
        """Return the subprotocol that the server has chosen."""
        found = [value for name, value in headers if name == b"sec-websocket-protocol"]
        return found[0].decode("latin-1") if found else None

    async def inbound(self, receive: Receive) -> None:
        """Send what the client sends, until it hangs up."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                await self._send(CloseConnection(CloseReason.NORMAL_CLOSURE))
                return
            if message["type"] == "websocket.receive":
                text = message.get("text")
                await self._send(BytesMessage(message["bytes"]) if text is None else TextMessage(text))

    async def _send(self, event: BytesMessage | TextMessage | CloseConnection) -> None:
        try:
            await self._exchange.write(self._connection.send(event))
        except LocalProtocolError as error:
            raise CallFailed(str(error)) from error

    async def outbound(self, send: Send) -> None:
        """Send the client what the server sends, until that closes."""
        binary, text = bytearray(), ""
        while data := await self._exchange.read():
            self._connection.receive_data(data)
            for event in self._connection.events():
                if isinstance(event, Ping):
                    await self._exchange.write(self._connection.send(event.response()))
                elif isinstance(event, CloseConnection):
                    await send({"type": "websocket.close", "code": event.code, "reason": event.reason or ""})
                    return
                elif isinstance(event, BytesMessage):
                    binary += event.data
                    if event.message_finished:
                        await send({"type": "websocket.send", "bytes": bytes(binary)})
                        binary.clear()
                elif isinstance(event, TextMessage):
                    text += event.data
                    if event.message_finished:
                        await send({"type": "websocket.send", "text": text})
                        text = ""
        await send({"type": "websocket.close", "code": CloseReason.NORMAL_CLOSURE, "reason": ""})
