"""The control plane's end of a connection to a daemon or shim, on asyncio.

asyncio's streams drop descriptors that come with the data, hence the bare socket here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.model import RuntimeLost, SandboxNotFound

if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

Frame = tuple[int, bytes, list[int]]


class NobodyListens(RuntimeLost):
    """No process has the socket open: the daemon or shim has ended."""


class HungUp(RuntimeLost):
    """The other end closed the connection before it answered."""


class Connection:
    """One connection. Descriptors that arrive belong to the caller."""

    def __init__(self, path: str) -> None:
        """Connect. Raises NobodyListens, or RuntimeLost when the process is too busy."""
        try:
            self.sock = wire.connect(path, timeout=0)
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError) as error:
            raise NobodyListens(f"nobody listens at {path}") from error
        except OSError as error:
            raise RuntimeLost(f"{path}: {error.strerror or error}") from error
        self._reader = wire.FrameReader()
        self._frames: list[Frame] = []
        self._closed = False

    @property
    def peer_pid(self) -> int:
        """The process that listens at the other end."""
        size = struct.calcsize("3i")
        credentials = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(struct.unpack("3i", credentials)[0])

    async def send(self, message: Message) -> None:
        """Send a request. Raises RuntimeLost."""
        try:
            await asyncio.get_running_loop().sock_sendall(self.sock, wire.message_frame(message))
        except ConnectionError as error:
            raise HungUp(str(error)) from error
        except OSError as error:
            raise RuntimeLost(str(error)) from error

    async def receive(self) -> Frame | None:
        """Return the next frame; None when the other end has closed."""
        while not self._frames:
            if self._closed:
                return None
            try:
                data, descriptors = wire.receive(self.sock)
            except BlockingIOError:
                await self._readable()
                continue
            except OSError:
                return None
            if not data:
                return None
            self._frames += self._reader.feed(data, descriptors)
        return self._frames.pop(0)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(self.sock.fileno(), wake)
        try:
            await ready
        finally:
            if not self._closed:
                loop.remove_reader(self.sock.fileno())

    async def answer(self) -> tuple[Message, list[int]]:
        """Return the next JSON message. Raises HungUp when the other end has closed."""
        frame = await self.receive()
        if frame is None:
            raise HungUp("the connection was closed")
        message: Message = json.loads(frame[1])
        return message, frame[2]

    async def ask(self, message: Message) -> tuple[Message, list[int]]:
        """Send a request and return its answer. Raises RuntimeLost, SandboxNotFound, OSError."""
        await self.send(message)
        answer, descriptors = await self.answer()
        if "failure" in answer:
            if answer.get("errno"):
                raise OSError(answer["errno"], answer["failure"])
            raise RuntimeLost(answer["failure"])
        if "missing" in answer:
            raise SandboxNotFound(answer["missing"])
        return answer, descriptors

    def close(self) -> None:
        """Hang up. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self.sock.fileno())
        self._reader.close()
        self.sock.close()


@contextlib.asynccontextmanager
async def connected(path: str, timeout: float = 60.0) -> AsyncIterator[Connection]:
    """Yield a connection for at most `timeout` seconds. Raises RuntimeLost."""
    connection = Connection(path)
    try:
        async with asyncio.timeout(timeout):
            yield connection
    except TimeoutError:
        raise RuntimeLost(f"{path}: no answer within {timeout:.0f} s") from None
    finally:
        connection.close()
