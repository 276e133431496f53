"""SPDY streams over a byte channel: one task reads frames, each stream has a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from trainshed.cluster.apiserver.streams import spdy
from trainshed.cluster.apiserver.streams.inbox import Inbox
from trainshed.cluster.apiserver.streams.protocol import ByteChannel

MAX_STREAMS = 4_096
"""Streams that a client may have open on a connection: two for each connection of a port-forward."""

LINGER_SECONDS = 10.0
"""How long a finished connection waits for the client to hang up, so that no data is lost to a reset."""


class Stream:
    """One stream that the client opened. `headers` have lower-case names."""

    def __init__(self, session: Session, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._inbox = Inbox()  # when it is full, reading from the client pauses: there are no windows
        self._finished = False
        self._abandoned = False

    async def read(self) -> bytes:
        """Return the next payload; empty at the end of the stream."""
        if self._finished:
            return b""
        data = await self._inbox.get()
        self._finished = not data
        return data

    async def write(self, data: bytes, *, end: bool = False) -> None:
        """Send payload; `end` closes our half."""
        self._session.frames.send(self.number, data, end=end)
        await self._session.flush()

    def abandon(self) -> None:
        """Drop what the client still sends, so that it cannot hold up the other streams."""
        self._abandoned = True
        self._inbox.clear()

    async def deliver(self, data: bytes, end: bool) -> None:
        """Take payload from the reader; waits when the queue is full."""
        if data and not self._abandoned:
            await self._inbox.put(data)
        if end:
            self._inbox.end()

    def lose(self) -> None:
        """Wake the reader although the client did not end the stream: it has gone."""
        self._inbox.end()


class Session:
    """A SPDY connection. Iterate `streams()` in one task: that is what reads from the client."""

    def __init__(self, channel: ByteChannel) -> None:
        self.frames = spdy.Connection()
        self._channel = channel
        self._streams: dict[int, Stream] = {}
        self._lock = asyncio.Lock()

    async def flush(self) -> None:
        """Send queued frames in the order in which they were made."""
        async with self._lock:
            data = self.frames.take()
            if data:
                await self._channel.write(data)

    async def streams(self) -> AsyncIterator[Stream]:
        """Yield streams as the client opens them, already accepted; ends when the client has gone."""
        try:
            while True:
                data = await self._channel.read()
                if not data:
                    return
                try:
                    for event in self.frames.receive(data):
                        opened = await self._handle(event)
                        if opened is not None:
                            yield opened
                except spdy.SpdyError:
                    self.frames.goaway()
                    await self.flush()
                    return
                await self.flush()
        finally:
            for stream in self._streams.values():
                stream.lose()

    async def _handle(self, event: spdy.Event) -> Stream | None:
        match event:
            case spdy.StreamOpened() if len(self._streams) >= MAX_STREAMS:
                raise spdy.SpdyError(f"more than {MAX_STREAMS} streams")
            case spdy.StreamOpened(number, headers, end):
                stream = self._streams[number] = Stream(self, number, headers)
                self.frames.reply(number)
                if end:
                    await stream.deliver(b"", end=True)
                return stream
            case spdy.Data(number, data, end):
                held = self._streams.get(number)
                if held is not None:
                    await held.deliver(data, end)
            case spdy.Reset(number):
                held = self._streams.pop(number, None)
                if held is not None:
                    held.lose()
            case spdy.GoAway():
                pass  # the client closes the connection when its streams are done
        return None

    def forget(self, stream: Stream) -> None:
        """Drop a stream that both sides have closed."""
        self._streams.pop(stream.number, None)

    async def close(self) -> None:
        """Say goodbye and close the channel."""
        self.frames.goaway()
        await self.flush()
        await self._channel.close()
