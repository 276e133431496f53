"""exec and attach: one process, three streams, a terminal size and an exit status, over WebSocket or SPDY.

Both transports become `Channels`; `bridge` connects those to the node's `ExecSession`. The exit status is a
`Status` object on the error channel in protocol v4 and v5, and a text before that.

Source: k8s.io/apimachinery `remotecommand` constants and KEP-4006 (v5 adds CLOSE frames).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

import msgspec

from trainshed.cluster.apiserver.streams.inbox import Inbox
from trainshed.cluster.backend import ExecSession
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class Input(msgspec.Struct, frozen=True):
    """Bytes for stdin; empty means that stdin ends."""

    data: bytes


class Resize(msgspec.Struct, frozen=True):
    """New size of the terminal, in characters."""

    width: int
    height: int


class Channels(Protocol):
    """What a client and a process exchange, whatever carries it."""

    async def receive(self) -> Input | Resize | None:
        """Return what the client sends next; None when it has gone."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send output on `STDOUT` or `STDERR`."""
        ...

    async def finish(self, status: Object) -> None:
        """Send the exit status and end all streams; returns when the client has taken it all."""
        ...

    async def close(self) -> None:
        """Close, whether finished or not; may be called twice."""
        ...


def exit_status(code: int) -> Object:
    """Return the Status that tells a client how a command ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def parse_resize(payload: bytes) -> Resize | None:
    """Return the terminal size in a resize message `{"Width":80,"Height":24}`, or None when malformed."""
    try:
        fields = msgspec.json.decode(payload, type=dict[str, int])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    width, height = fields.get("Width", 0), fields.get("Height", 0)
    return Resize(width, height) if 0 < width < 65536 and 0 < height < 65536 else None


async def bridge(session: ExecSession, channels: Channels, *, report_exit: bool) -> None:
    """Connect a process to a client until the process ends or the client leaves; closes both.

    Args:
        report_exit: tell the exit code (exec); attach only says that it is over.
    """
    pending = Inbox()  # when it is full, reading from the client pauses
    output = asyncio.create_task(_pump_output(session, channels, report_exit=report_exit))
    stdin = asyncio.create_task(_pump_input(session, pending))
    client = asyncio.create_task(_read_client(session, channels, pending))
    tasks = (output, stdin, client)
    try:
        # The client leaving ends everything; the client merely ending stdin does not.
        await asyncio.wait((output, client), return_when=asyncio.FIRST_COMPLETED)
        if output.done():
            output.result()
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        await session.close()
        await channels.close()


async def _pump_output(session: ExecSession, channels: Channels, *, report_exit: bool) -> None:
    try:
        async for channel, data in session.output():
            await channels.send(channel, data)
        code = await session.wait()
        status = exit_status(code if report_exit else 0)
    except ApiError as error:
        status = error.status()
    await channels.finish(status)


async def _pump_input(session: ExecSession, pending: Inbox) -> None:
    while data := await pending.get():
        await session.write_stdin(data)
    await session.close_stdin()


async def _read_client(session: ExecSession, channels: Channels, pending: Inbox) -> None:
    while (message := await channels.receive()) is not None:
        if isinstance(message, Resize):
            await session.resize(message.width, message.height)
        else:
            await pending.put(message.data)
