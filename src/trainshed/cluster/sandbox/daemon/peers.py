"""Unix socket servers on the poll loop: connections of the control plane to daemons and shims."""

from __future__ import annotations

import json
import os
import socket

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.loop import READ, WRITE, record_crash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

MAX_PENDING = 4 << 20
"""Bytes kept for a peer that does not read; above it the peer is hung up on, so that pods never wait."""


class Peer:
    """One connection. `on_message(peer, message)` per request; `on_close()` once when it is gone."""

    def __init__(self, loop: Loop, sock: socket.socket, on_message: Callable[[Peer, Message], None]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.on_close: Callable[[], None] | None = None
        self._loop = loop
        self._on_message = on_message
        self._reader = wire.FrameReader()
        self._pending: list[tuple[bytes, tuple[int, ...]]] = []
        self._pending_bytes = 0
        self._open = True
        self._closing = False
        loop.watch(sock.fileno(), READ, self._ready)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if self._open and events & ~WRITE:
            self._read()

    def _read(self) -> None:
        try:
            data, descriptors = wire.receive(self.sock)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self.close()
            return
        try:
            for _, payload, taken in self._reader.feed(data, descriptors):
                for fd in taken:  # requests carry none
                    os.close(fd)
                message = json.loads(payload)
                try:
                    self._on_message(self, message)
                except Exception as error:  # a bug, or a client of another version: the pod must go on
                    record_crash()
                    self.answer({"failure": f"internal error: {error!r}"})
                if not self._open:
                    return
        except ValueError:
            self.close()

    @property
    def has_hung_up(self) -> bool:
        """Whether the other end is closed: a request may have waited for longer than who sent it lived."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def answer(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message; `descriptors` are closed here once they are sent or the peer is gone."""
        self._send(wire.message_frame(message), tuple(descriptors))

    def stream(self, kind: int, data: bytes) -> None:
        """Send output of a container."""
        self._send(wire.frame(kind, data), ())

    def _send(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        if not self._open or self._pending_bytes > MAX_PENDING:
            for fd in descriptors:
                os.close(fd)
            self.close()
            return
        self._pending.append((data, descriptors))
        self._pending_bytes += len(data)
        self._flush()

    def _flush(self) -> None:
        while self._open and self._pending:
            data, descriptors = self._pending[0]
            try:
                sent = wire.send_some(self.sock, data, descriptors)
            except BlockingIOError:
                self._loop.watch(self.sock.fileno(), READ | WRITE, self._ready)
                return
            except OSError:
                self.close()
                return
            for fd in descriptors:
                os.close(fd)
            self._pending_bytes -= sent
            if sent < len(data):
                self._pending[0] = (data[sent:], ())
            else:
                self._pending.pop(0)
        if not self._open:
            return
        self._loop.watch(self.sock.fileno(), READ, self._ready)
        if self._closing:
            self.close()

    def finish(self) -> None:
        """Close once everything is sent."""
        self._closing = True
        self._flush()

    def release(self) -> socket.socket:
        """Hand the socket over, blocking again, without closing it: a forked child answers."""
        self._loop.forget(self.sock.fileno())
        self._open = False
        return self.sock

    def close(self) -> None:
        """Hang up now. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        self._loop.forget(self.sock.fileno())
        self._reader.close()
        for _, descriptors in self._pending:
            for fd in descriptors:
                os.close(fd)
        self._pending = []
        self.sock.close()
        if self.on_close is not None:
            self.on_close()


class Server:
    """Accepts connections of this user at a socket path; anyone else is hung up on."""

    def __init__(self, loop: Loop, path: str, on_message: Callable[[Peer, Message], None]) -> None:
        self._loop = loop
        self._on_message = on_message
        self.path = path
        self.listener = wire.listen(path)
        loop.watch(self.listener.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        if not wire.is_same_user(sock):
            sock.close()
            return
        Peer(self._loop, sock, self._on_message)

    def close(self) -> None:
        """Stop accepting and remove the socket's name."""
        self._loop.forget(self.listener.fileno())
        self.listener.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
