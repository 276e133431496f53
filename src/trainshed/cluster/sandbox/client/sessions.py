"""Streams into sandboxes: exec, attach and dialled ports. All methods are safe to call after the end."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import json
import os
import socket
import termios
from collections.abc import AsyncIterator

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.client.connection import Connection
from trainshed.cluster.sandbox.model import RuntimeLost

_CHUNK = 65536


class _Descriptor:
    """A pipe or terminal read and written without blocking the loop."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    @property
    def closed(self) -> bool:
        return self._fd < 0

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end, which a terminal reports as EIO."""
        while self._fd >= 0:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:
                await self._ready(write=False)
            except OSError:
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Write everything; what nobody reads any more is dropped."""
        view = memoryview(data)
        while view and self._fd >= 0:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                await self._ready(write=True)
            except OSError:
                return

    async def _ready(self, *, write: bool) -> None:
        loop = asyncio.get_running_loop()
        fd = self._fd
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        if write:
            loop.add_writer(fd, wake)
        else:
            loop.add_reader(fd, wake)
        try:
            await future
        finally:
            if self._fd == fd:
                if write:
                    loop.remove_writer(fd)
                else:
                    loop.remove_reader(fd)

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            loop.remove_reader(fd)
            loop.remove_writer(fd)
        os.close(fd)


class ExecSession:
    """A process started by `Runtime.exec`: its streams are ours, its exit code comes from the shim."""

    def __init__(self, connection: Connection, descriptors: list[int], *, stdin: bool) -> None:
        self._connection = connection
        self._tty = len(descriptors) == 1
        self._streams = [_Descriptor(fd) for fd in descriptors]
        self._exit_code: asyncio.Task[int] = asyncio.create_task(self._wait())
        if not stdin and not self._tty:
            self._streams[0].close()

    async def _wait(self) -> int:
        try:
            message, _ = await self._connection.answer()
        except RuntimeLost:
            return 137  # the pod was stopped, and with it everything in it
        return int(message["exit_code"])

    async def write_stdin(self, data: bytes) -> None:
        """Write to the process; what it does not read any more is dropped."""
        await self._streams[0].write(data)

    async def close_stdin(self) -> None:
        """End its input: of a terminal by ^D, which is what a closed terminal would not do."""
        if self._tty:
            await self._streams[0].write(b"\x04")
        else:
            self._streams[0].close()

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._tty and not self._streams[0].closed:
            _set_window(self._streams[0].fileno(), width, height)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (1, stdout) and (2, stderr) until both are closed."""
        if self._tty:
            while data := await self._streams[0].read():
                yield wire.OUT, data
            return
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(maxsize=8)

        async def pump(kind: int) -> None:
            stream = self._streams[kind]
            while data := await stream.read():
                await queue.put((kind, data))
            await queue.put((kind, b""))

        pumps = [asyncio.create_task(pump(kind)) for kind in (wire.OUT, wire.ERR)]
        try:
            ended = 0
            while ended < len(pumps):
                kind, data = await queue.get()
                if data:
                    yield kind, data
                else:
                    ended += 1
        finally:
            for task in pumps:
                task.cancel()

    async def wait(self) -> int:
        """Return the exit code."""
        return await asyncio.shield(self._exit_code)

    async def close(self) -> None:
        """Hang up: the shim sends SIGHUP to the process group, then SIGKILL."""
        self._exit_code.cancel()
        for stream in self._streams:
            stream.close()
        self._connection.close()


class AttachSession:
    """The streams of a container: output as frames from the shim, input through a descriptor."""

    def __init__(self, connection: Connection, descriptors: list[int], *, tty: bool) -> None:
        self._connection = connection
        self._tty = tty
        self._input = _Descriptor(descriptors[0]) if descriptors else None
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def write_stdin(self, data: bytes) -> None:
        """Write to the container; dropped when it was made without stdin."""
        if self._input is not None:
            await self._input.write(data)

    async def close_stdin(self) -> None:
        """End its input if it has `stdin_once`."""
        if self._input is not None and not self._tty:
            self._input.close()
            with contextlib.suppress(RuntimeLost):
                await self._connection.send({"op": "close_stdin"})

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self._tty and self._input is not None and not self._input.closed:
            _set_window(self._input.fileno(), width, height)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (1, stdout) and (2, stderr) from now until the container ends."""
        while not self._exit_code.done():
            frame = await self._connection.receive()
            if frame is None:
                self._finish(137)
                return
            kind, payload, _ = frame
            if kind == wire.JSON:
                self._finish(int(json.loads(payload)["exit_code"]))
                return
            yield kind, payload

    def _finish(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    async def wait(self) -> int:
        """Return the container's exit code; output that nobody asked for is dropped."""
        async for _ in self.output():
            pass
        return await self._exit_code

    async def close(self) -> None:
        """Detach; the container runs on."""
        if self._input is not None:
            self._input.close()
        self._finish(137)
        self._connection.close()


class PodStream:
    """A TCP connection inside a pod's network."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end of the stream."""
        return await asyncio.get_running_loop().sock_recv(self._sock, _CHUNK)

    async def write(self, data: bytes) -> None:
        """Send everything. Raises OSError."""
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def write_eof(self) -> None:
        """Send no more."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Close both directions."""
        self._sock.close()


def _set_window(terminal: int, width: int, height: int) -> None:
    """Set the size in characters; the foreground process gets SIGWINCH."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, array.array("H", [height, width, 0, 0]))
