"""Reads the logs of a job's replicas, without losing or repeating a line: of one container, or several merged by time.

Each line is asked for with its timestamp, so that after a lost connection (the control plane was killed, say)
the stream resumes after the last line seen.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.options import LogOptions

_RETRY_SECONDS = 0.5
_FRAME_BYTES = 4096
_PIECE_BYTES = 4096
"""How much of a log is taken before everything else gets its turn: about a hundred lines, a millisecond or two."""


class Lines(msgspec.Struct):
    """Some lines of a log, and when each was printed: RFC 3339 with a fixed number of digits orders like text."""

    texts: list[str]
    stamps: list[str]

    def __bool__(self) -> bool:
        return bool(self.texts)


LinesHandler = Callable[[Lines], Awaitable[None]]
"""Called with some lines; what it waits for holds up the reading."""
FrameHandler = Callable[[str], None]
"""Called with what is there of a line that is drawn over itself again and again, as progress bars are."""


class LineSplitter:
    """Cuts chunks into lines, and after a restart drops what was seen before. Pure apart from its own state.

    Several lines may carry one timestamp, so the position is the last timestamp and how many lines had it.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._last = ""
        self._seen_at_last = 0
        self._resume_after = ("", 0)

    def feed(self, chunk: bytes) -> Lines:
        """Return the new complete lines in the chunk, without their timestamps."""
        complete, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(chunk)
            return Lines([], [])
        text = b"".join((*self._rest, complete)).decode("utf-8", "replace")
        self._rest = [rest] if rest else []
        return self._new(text.split("\n"))

    @property
    def frame(self) -> str:
        """The beginning of the next line, if it is one that is drawn over itself; else nothing."""
        if not self._rest:
            return ""
        tail = b""
        for chunk in reversed(self._rest):
            tail = chunk + tail
            if len(tail) >= _FRAME_BYTES or tail.rstrip(b"\r").count(b"\r"):
                break
        _, returned, frame = tail.rstrip(b"\r").rpartition(b"\r")
        return frame.decode("utf-8", "replace") if returned else ""

    def restart(self) -> None:
        """The stream starts over from its first line: forget an incomplete one, remember the position.

        A stream that broke before it got as far as an earlier one, or did not start at all, moves nothing back.
        """
        self._rest = []
        self._resume_after = max(self._resume_after, (self._last, self._seen_at_last))
        self._last, self._seen_at_last = "", 0

    def finish(self) -> Lines:
        """Return what is left when the log has ended without a newline."""
        rest, self._rest = b"".join(self._rest), []
        return self._new([rest.decode("utf-8", "replace")]) if rest else Lines([], [])

    def _new(self, lines: Sequence[str]) -> Lines:
        texts: list[str] = []
        stamps: list[str] = []
        last, seen, after = self._last, self._seen_at_last, self._resume_after
        for line in lines:
            stamp, _, text = line.partition(" ")
            seen = seen + 1 if stamp == last else 1
            last = stamp
            if (stamp, seen) > after:
                texts.append(text)
                stamps.append(stamp)
        self._last, self._seen_at_last = last, seen
        return Lines(texts, stamps)


async def follow_container(
    client: Client,
    pod: str,
    namespace: str,
    container: str,
    handle: LinesHandler,
    *,
    frame: FrameHandler = lambda text: None,
    tail: int | None = None,
) -> None:
    """Hand on every line of one container instance; returns when its log has ended.

    With `tail`, the first to be handed on is the so-many-last that is there. A connection that is lost before any
    line came starts over with that; a later one reads the log from its start, to find where it was.
    """
    splitter = LineSplitter()
    while True:
        try:
            stream = client.logs(
                pod,
                namespace,
                LogOptions(container=container, follow=True, timestamps=True, tail_lines=tail),
            )
            async with aclosing(stream) as chunks:
                async for chunk in chunks:
                    for start in range(0, len(chunk), _PIECE_BYTES):
                        if lines := splitter.feed(chunk[start : start + _PIECE_BYTES]):
                            tail = None
                            await handle(lines)
                        # However much has come, Ctrl-C and the other logs get their turn.
                        await asyncio.sleep(0)
                    if shown := splitter.frame:
                        frame(shown)
            if lines := splitter.finish():
                await handle(lines)
            return
        except ApiError as error:
            if error.code in (400, 404):  # not started yet, or gone: the pod's next state decides
                return
        except TransportError:
            pass
        splitter.restart()
        await asyncio.sleep(_RETRY_SECONDS)


class Source(msgspec.Struct, frozen=True):
    """A container whose log is read, and the replica under whose name its lines are shown."""

    replica: str
    pod: str
    namespace: str
    container: str


async def merged(
    client: Client, sources: Sequence[Source], *, tail: int | None = None
) -> AsyncGenerator[tuple[str, list[str]], None]:
    """Yield (replica, lines) of what the containers have printed so far, merged by time; with `tail`, the last of each.

    Containers that have not started, or are gone, have no lines.
    """
    readers = [_written(client, source, tail) for source in sources]
    try:
        waiting = []
        for order, reader in enumerate(readers):
            if (lines := await anext(reader, None)) is not None:
                waiting.append((lines.stamps[0], order, 0, lines))
        heapq.heapify(waiting)
        while waiting:
            _, order, start, lines = heapq.heappop(waiting)
            limit = waiting[0][:2] if waiting else None
            end = start + 1
            while end < len(lines.stamps) and (limit is None or (lines.stamps[end], order) <= limit):
                end += 1
            yield sources[order].replica, lines.texts[start:end]
            if end == len(lines.stamps):
                following = await anext(readers[order], None)
                if following is None:
                    continue
                lines, end = following, 0
            heapq.heappush(waiting, (lines.stamps[end], order, end, lines))
    finally:
        for reader in readers:
            await reader.aclose()


async def _written(client: Client, source: Source, tail: int | None) -> AsyncGenerator[Lines, None]:
    options = LogOptions(container=source.container, timestamps=True, tail_lines=tail)
    splitter = LineSplitter()
    try:
        async with aclosing(client.logs(source.pod, source.namespace, options)) as chunks:
            async for chunk in chunks:
                if lines := splitter.feed(chunk):
                    yield lines
    except ApiError as error:
        if error.code not in (400, 404):
            raise
    if lines := splitter.finish():
        yield lines


async def last_lines(
    client: Client, pod: str, namespace: str, container: str, count: int, *, previous: bool = False
) -> list[str] | None:
    """Return the last lines of a container's log as the node has it, None where that cannot be had."""
    options = LogOptions(container=container, tail_lines=count, previous=previous)
    try:
        async with aclosing(client.logs(pod, namespace, options)) as chunks:
            text = b"".join([chunk async for chunk in chunks]).decode("utf-8", "replace")
    except (ApiError, TransportError):
        return None
    return text.removesuffix("\n").split("\n") if text else []
