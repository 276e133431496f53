"""Channels of a SPDY connection: every stream has a header `streamtype` that says what it carries."""

from __future__ import annotations

import asyncio
from typing import Self

import msgspec

from trainshed.cluster.apiserver.streams.remotecommand import STDERR, STDOUT, Input, Resize, parse_resize
from trainshed.cluster.apiserver.streams.spdysession import LINGER_SECONDS, Session, Stream
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.objects import Object

PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""v5 adds nothing to SPDY, whose streams always could be closed."""

OPEN_SECONDS = 30.0
"""How long a client may take to open the streams that it announced in the query."""


class SpdyChannels:
    """`Channels` over SPDY. Make one with `open`."""

    def __init__(self, session: Session, protocol: str) -> None:
        self._session = session
        self._protocol = protocol
        self._streams: dict[str, Stream] = {}
        self._opened = asyncio.Event()
        self._inbox: asyncio.Queue[Input | Resize | None] = asyncio.Queue(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, session: Session, protocol: str, request: ExecRequest) -> Self:
        """Wait for the streams that the request announced.

        Raises:
            TimeoutError: a stream is missing after `OPEN_SECONDS`, or the client has gone.
        """
        expected = {"error"}
        wanted = {
            "stdin": request.stdin,
            "stdout": request.stdout,
            "stderr": request.stderr and not request.tty,
        }
        expected |= {name for name, present in wanted.items() if present}
        self = cls(session, protocol)
        self._reader = asyncio.create_task(self._read(expected))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._opened.wait()
            if expected - self._streams.keys():
                raise TimeoutError("the client left before it opened its streams")
        except BaseException:
            await self.close()
            raise
        return self

    async def _read(self, expected: set[str]) -> None:
        try:
            async for stream in self._session.streams():
                name = stream.headers.get("streamtype", "")
                self._streams[name] = stream
                if name == "stdin":
                    self._tasks.append(asyncio.create_task(self._read_stdin(stream)))
                elif name == "resize":
                    self._tasks.append(asyncio.create_task(self._read_resize(stream)))
                if expected <= self._streams.keys():
                    self._opened.set()
        finally:
            self._opened.set()
            for task in self._tasks:
                task.cancel()
        await self._inbox.put(None)

    async def _read_stdin(self, stream: Stream) -> None:
        while data := await stream.read():
            await self._inbox.put(Input(data))
        await self._inbox.put(Input(b""))

    async def _read_resize(self, stream: Stream) -> None:
        rest = b""
        while data := await stream.read():
            # A JSON object per line; a frame may hold several or a part of one.
            *lines, rest = (rest + data).split(b"\n")
            if rest.endswith(b"}"):
                lines, rest = [*lines, rest], b""
            for line in lines:
                if (size := parse_resize(line)) is not None:
                    await self._inbox.put(size)

    async def receive(self) -> Input | Resize | None:
        """Return what the client sends next; None when it has gone."""
        return await self._inbox.get()

    async def send(self, channel: int, data: bytes) -> None:
        """Send output; dropped when the client did not ask for that stream."""
        stream = self._streams.get({STDOUT: "stdout", STDERR: "stderr"}[channel])
        if stream is not None:
            await stream.write(data)

    async def finish(self, status: Object) -> None:
        """Send the exit status, end all streams and wait for the client to hang up."""
        text = b""
        if self._protocol == PROTOCOLS[0]:
            text = msgspec.json.encode(status)
        elif status.get("status") != "Success":
            text = str(status.get("message", "")).encode()
        for name, stream in self._streams.items():
            stream.abandon()
            await stream.write(text if name == "error" else b"", end=True)
        if self._reader is not None:
            # Closing while input is in flight would reset the connection and lose the output before it.
            await asyncio.wait([self._reader], timeout=LINGER_SECONDS)

    async def close(self) -> None:
        """Close the connection and stop reading."""
        tasks = [*self._tasks, *([self._reader] if self._reader else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()
