"""Channels of a WebSocket: the first byte of every message says which stream it belongs to.

`base64.channel.k8s.io` is the same in text: a digit, then base64. `CLOSE` frames exist in v5 only.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from trainshed.cluster.apiserver.streams.remotecommand import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Input,
    Resize,
    parse_resize,
)
from trainshed.cluster.apiserver.streams.websocket import WebSocket
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.objects import Object

PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
)
_WITH_STATUS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_PIECE = 32 * 1024


def encode(protocol: str, channel: int, data: bytes) -> bytes | str:
    """Return the message that carries data on a channel."""
    if "base64" in protocol:
        return f"{channel}{base64.b64encode(data).decode()}"
    return bytes([channel]) + data


def decode(protocol: str, message: bytes | str) -> tuple[int, bytes] | None:
    """Return the channel and payload of a message, or None when it is malformed.

    Without base64 the kind of message does not matter: the Python client sends stdin that is str as text.
    """
    data = message.encode() if isinstance(message, str) else message
    if not data:
        return None
    if "base64" not in protocol:
        return data[0], data[1:]
    if not data[:1].isdigit():
        return None
    try:
        return int(data[:1]), base64.b64decode(data[1:], validate=True)
    except binascii.Error:
        return None


class WebSocketChannels:
    """`Channels` over a WebSocket whose subprotocol is one of `PROTOCOLS` (none: `channel.k8s.io`)."""

    def __init__(self, socket: WebSocket, request: ExecRequest) -> None:
        self._socket = socket
        self._stdin = request.stdin
        self._asked = {STDOUT: request.stdout, STDERR: request.stderr and not request.tty}
        self._protocol = socket.subprotocol or "channel.k8s.io"

    async def begin(self) -> None:
        """Send an empty message on the first stream that the client reads: it may wait for that, as for a kubelet's."""
        first = next((channel for channel, asked in self._asked.items() if asked), ERROR)
        await self._socket.send(encode(self._protocol, first, b""))

    async def receive(self) -> Input | Resize | None:
        """Return what the client sends next; None when it has gone."""
        while (message := await self._socket.read()) is not None:
            decoded = decode(self._protocol, message)
            if decoded is None:
                continue
            channel, payload = decoded
            if channel == STDIN and self._stdin and payload:
                return Input(payload)
            if channel == CLOSE and self._stdin and payload[:1] == bytes([STDIN]):
                return Input(b"")
            if channel == RESIZE and (size := parse_resize(payload)) is not None:
                return size
        return None

    async def send(self, channel: int, data: bytes) -> None:
        """Send output in messages of at most 32 KiB; dropped when the client did not ask for that stream."""
        if not self._asked[channel]:
            return
        for at in range(0, len(data), _PIECE):
            await self._socket.send(encode(self._protocol, channel, data[at : at + _PIECE]))

    async def finish(self, status: Object) -> None:
        """Send the exit status on the error channel and start closing."""
        if self._protocol in _WITH_STATUS:
            await self._socket.send(encode(self._protocol, ERROR, msgspec.json.encode(status)))
        elif status.get("status") != "Success":
            text = str(status.get("message", "")).encode()
            await self._socket.send(encode(self._protocol, ERROR, text))
        await self._socket.close()

    async def close(self) -> None:
        """Close; the second time nothing happens."""
        await self._socket.close()
