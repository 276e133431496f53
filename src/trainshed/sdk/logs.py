"""Follows the logs of all replicas of a job as one stream, without losing or repeating a line.

Each line is asked for with its timestamp, so that after a lost connection (the control plane was killed, say)
the stream resumes after the last line seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.options import LogOptions

_RETRY_SECONDS = 0.5

LinesHandler = Callable[[str, Sequence[str]], Awaitable[None]]
"""Called with a replica and some lines of it; what it waits for holds up the reading."""


class LineSplitter:
    """Cuts chunks into lines, and after a restart drops what was seen before. Pure apart from its own state.

    Several lines may carry one timestamp, so the position is the last timestamp and how many lines had it.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._last = ""
        self._seen_at_last = 0
        self._resume_after = ("", 0)

    def feed(self, chunk: bytes) -> list[str]:
        """Return the new complete lines in the chunk, without their timestamps."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        return [text for line in complete if (text := self._new(line)) is not None]

    def restart(self) -> None:
        """The stream starts over from its first line: forget an incomplete one, remember the position.

        A stream that broke before it got as far as an earlier one, or did not start at all, moves nothing back.
        """
        self._rest = b""
        self._resume_after = max(self._resume_after, (self._last, self._seen_at_last))
        self._last, self._seen_at_last = "", 0

    def finish(self) -> list[str]:
        """Return what is left when the log has ended without a newline."""
        rest, self._rest = self._rest, b""
        text = self._new(rest) if rest else None
        return [] if text is None else [text]

    def _new(self, line: bytes) -> str | None:
        timestamp, _, text = line.decode("utf-8", "replace").partition(" ")
        self._seen_at_last = self._seen_at_last + 1 if timestamp == self._last else 1
        self._last = timestamp
        # RFC 3339 with a fixed number of digits in one zone orders like text.
        return text if (timestamp, self._seen_at_last) > self._resume_after else None


async def follow_container(
    client: Client,
    pod: str,
    namespace: str,
    container: str,
    replica: str,
    handle: LinesHandler,
    *,
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
                    if lines := splitter.feed(chunk):
                        tail = None
                        await handle(replica, lines)
            if lines := splitter.finish():
                await handle(replica, lines)
            return
        except ApiError as error:
            if error.code in (400, 404):  # not started yet, or gone: the pod's next state decides
                return
        except TransportError:
            pass
        splitter.restart()
        await asyncio.sleep(_RETRY_SECONDS)


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
