"""Messages between the control plane, the daemons and the shims, over unix stream sockets.

A frame is a 4-byte length, a 1-byte kind and the payload; descriptors ride on its first byte
(SCM_RIGHTS). Kind JSON carries requests and answers; OUT and ERR carry output of an attached container.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    Message: TypeAlias = dict[str, Any]

PROTOCOL = 3
JSON = 0
OUT = 1
ERR = 2

_HEADER = struct.Struct("!IB")
MAX_DESCRIPTORS = 8
MAX_FRAME = 16 << 20
BACKLOG = 4096
"""Connections that may wait: a client does not, and many pods may be removed at once (the kernel's usual maximum)."""


def frame(kind: int, payload: bytes) -> bytes:
    """Return the bytes of one frame."""
    return _HEADER.pack(len(payload), kind) + payload


def message_frame(message: Message) -> bytes:
    """Return a JSON frame."""
    return frame(JSON, json.dumps(message, separators=(",", ":")).encode())


class FrameReader:
    """Cuts a byte stream into frames; descriptors go to the frame whose first byte they came with.

    Feed it what each recvmsg returned. A frame above MAX_FRAME raises ValueError: the peer is not ours.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._descriptors: list[int] = []

    def feed(self, data: bytes, descriptors: Sequence[int] = ()) -> Iterator[tuple[int, bytes, list[int]]]:
        """Yield (kind, payload, descriptors) for every frame that is complete now."""
        self._buffer += data
        self._descriptors += descriptors
        while len(self._buffer) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise ValueError(f"frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            # A peer sends the next frame with descriptors only after this one was answered or ended, so
            # all that arrived so far belong to the first complete frame.
            taken, self._descriptors = self._descriptors, []
            yield kind, payload, taken

    def close(self) -> None:
        """Close descriptors that no frame claimed."""
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors = []


def receive(sock: socket.socket, size: int = 65536) -> tuple[bytes, list[int]]:
    """Return the next bytes and descriptors (close-on-exec). Empty bytes: the peer has closed."""
    space = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
    data, ancillary, _, _ = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
    return data, list(numbers)


def send_some(sock: socket.socket, data: bytes | memoryview, descriptors: Sequence[int] = ()) -> int:
    """Send what the socket takes, descriptors with the first byte; return how many bytes went."""
    ancillary: list[tuple[int, int, array.array[int]]] = []
    if descriptors:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    return sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)


def send_all(sock: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send everything on a blocking socket."""
    sent = send_some(sock, data, descriptors)
    if sent < len(data):
        sock.sendall(data[sent:])


def ask(sock: socket.socket, message: Message) -> tuple[Message, list[int]]:
    """Send a request on a blocking socket and return its answer with descriptors.

    Raises ConnectionError when the peer hangs up, TimeoutError after the socket's timeout.
    """
    send_all(sock, message_frame(message))
    return wait_answer(sock)


def wait_answer(sock: socket.socket) -> tuple[Message, list[int]]:
    """Return the next JSON message on a blocking socket, with descriptors. Raises as `ask` does."""
    reader = FrameReader()
    while True:
        data, descriptors = receive(sock)
        if not data:
            reader.close()
            raise ConnectionResetError("the peer closed the connection without an answer")
        for _, payload, taken in reader.feed(data, descriptors):
            answer: Message = json.loads(payload)
            return answer, taken


def _at(path: str, use: Callable[[str], object]) -> None:
    """Call `use` with a name for the socket at `path` that fits sockaddr_un (108 bytes), whatever its length."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        use(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)


def connect(path: str, timeout: float | None = 10.0) -> socket.socket:
    """Return a blocking connection to the unix socket at `path`. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        _at(path, sock.connect)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(path: str) -> socket.socket:
    """Return a non-blocking listener at `path`, replacing what a dead process left; mode 0600."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        _at(path, sock.bind)
    finally:
        os.umask(mask)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def is_same_user(sock: socket.socket) -> bool:
    """Return whether the peer runs as the user of this process (uids as seen from this user namespace)."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())


def adopt(fd: int) -> socket.socket:
    """Return the socket that a descriptor received from another process stands for, non-blocking."""
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)
    return sock
