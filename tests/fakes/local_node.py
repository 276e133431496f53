"""A node whose only container is this machine: what streams need of a node, in local processes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from typing import Self

import msgspec

from trainshed.cluster.backend import ExecRequest, LogRequest
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object


class LocalProcess:
    """An `ExecSession` on this machine; with `tty` behind a pseudo-terminal."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process
        self.master: int | None = None
        self.closed = asyncio.Event()
        self._pumping: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, command: Sequence[str], *, stdin: bool, tty: bool) -> Self:
        self = cls()
        pipe = asyncio.subprocess.PIPE
        if tty:
            self.master, slave = pty.openpty()
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
            )
            os.close(slave)
        else:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe if stdin else asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
            )
        return self

    async def write_stdin(self, data: bytes) -> None:
        if self.master is not None:
            os.write(self.master, data)
        elif self.process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(data)
                await self.process.stdin.drain()

    async def close_stdin(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        if self.master is not None:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(8)
        if self.master is not None:
            terminal = Terminal(self.master)
            with terminal:
                while data := await terminal.read():
                    yield 1, data
            return

        async def pump(channel: int, reader: asyncio.StreamReader) -> None:
            while data := await reader.read(65536):
                await queue.put((channel, data))

        async def pump_both() -> None:
            assert self.process.stdout and self.process.stderr
            await asyncio.gather(pump(1, self.process.stdout), pump(2, self.process.stderr))
            await queue.put((0, b""))

        self._pumping = asyncio.create_task(pump_both())
        while (item := await queue.get())[0]:
            yield item

    async def wait(self) -> int:
        return await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGHUP)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self.process.wait()
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
        if self._pumping is not None:
            self._pumping.cancel()
            await asyncio.gather(self._pumping, return_exceptions=True)
            await self.process.communicate()  # what nobody reads any more
        if self.master is not None:
            os.close(self.master)
            self.master = None
        self.closed.set()


class Terminal:
    """Reads the controlling side of a pseudo-terminal."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        os.set_blocking(fd, False)

    def __enter__(self) -> Terminal:
        asyncio.get_running_loop().add_reader(self.fd, self._ready)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self.fd)

    def _ready(self) -> None:
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # EIO: the other side is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.fd)
        self._queue.put_nowait(data)

    async def read(self) -> bytes:
        return await self._queue.get()


class Tcp:
    """A `ByteStream` to a local port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> bytes:
        return await self.reader.read(65536)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def write_eof(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class LocalNode:
    """A `NodeBackend` on this machine; `ports` maps the pod's ports to local ones."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.sessions: list[LocalProcess] = []
        self.main = ["sh", "-c", "while read line; do echo got $line; done; exit 3"]

    def logs(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def exec(self, pod: Object, request: ExecRequest) -> LocalProcess:
        try:
            session = await LocalProcess.start(request.command, stdin=request.stdin, tty=request.tty)
        except FileNotFoundError as error:
            raise bad_request(f'exec: "{request.command[0]}": executable file not found') from error
        self.sessions.append(session)
        return session

    async def attach(self, pod: Object, request: ExecRequest) -> LocalProcess:
        return await self.exec(pod, msgspec.structs.replace(request, command=tuple(self.main)))

    async def port_forward(self, pod: Object, port: int) -> Tcp:
        return Tcp(*await asyncio.open_connection("127.0.0.1", self.ports[port]))
