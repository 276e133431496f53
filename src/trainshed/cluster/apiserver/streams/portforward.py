"""port-forward: TCP connections to a pod's ports, many over one connection of the client.

Two forms. kubectl opens a pair of SPDY streams per TCP connection, `data` and `error`, joined by a request
id; the connection is raw up to 1.30 and tunnelled in a WebSocket from 1.31 on (KEP-4006). The Python client
names its ports in the query and gets a pair of WebSocket channels for each; it has no message for the end
of one connection, so the WebSocket closes when all of them have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from trainshed.cluster.apiserver.streams.inbox import Inbox
from trainshed.cluster.apiserver.streams.remotecommand import CLOSE
from trainshed.cluster.apiserver.streams.spdysession import Session, Stream
from trainshed.cluster.apiserver.streams.websocket import WebSocket
from trainshed.cluster.backend import ByteStream, NodeBackend
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, metadata_of

SPDY_PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
CHANNEL_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class _Pair(msgspec.Struct):
    error: Stream | None = None
    data: Stream | None = None


def _failure(pod: Object, port: int, error: Exception) -> str:
    uid = metadata_of(pod).get("uid", "")
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"error forwarding port {port} to pod {uid}: {why.lower() if why else 'connection failed'}"


async def forward_spdy(session: Session, backend: NodeBackend, pod: Object) -> None:
    """Serve pairs of streams until the client hangs up, then end its connections."""
    waiting: dict[str, _Pair] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        async for stream in session.streams():
            request = stream.headers.get("requestid", "")
            pair = waiting.setdefault(request, _Pair())
            if stream.headers.get("streamtype") == "error":
                pair.error = stream
            else:
                pair.data = stream
            if pair.error is not None and pair.data is not None:
                del waiting[request]
                task = asyncio.create_task(_serve_pair(session, pair.error, pair.data, backend, pod))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await session.close()


async def _serve_pair(
    session: Session, error: Stream, data: Stream, backend: NodeBackend, pod: Object
) -> None:
    error.abandon()
    text = b""
    try:
        port = int(data.headers.get("port", ""))
        try:
            connection = await backend.port_forward(pod, port)
        except (OSError, ApiError) as failed:
            text = _failure(pod, port, failed).encode()
        else:
            text = await _copy_pair(data, connection, pod, port)
    except ValueError:
        text = b"the header port is not a number"
    data.abandon()
    await data.write(b"", end=True)
    await error.write(text, end=True)
    session.forget(data)
    session.forget(error)


async def _copy_pair(data: Stream, connection: ByteStream, pod: Object, port: int) -> bytes:
    """Copy both ways until the pod closes; returns the text for the error stream, empty when all went well."""

    async def to_pod() -> None:
        while piece := await data.read():
            await connection.write(piece)
        await connection.write_eof()

    upstream = asyncio.create_task(to_pod())
    try:
        while piece := await connection.read():
            await data.write(piece)
        return b""
    except OSError as failed:
        return _failure(pod, port, failed).encode()
    finally:
        upstream.cancel()
        await asyncio.gather(upstream, return_exceptions=True)
        await connection.close()


async def forward_channels(
    socket: WebSocket, backend: NodeBackend, pod: Object, ports: Sequence[int]
) -> None:
    """Serve the Python client's form: channels 2i (data) and 2i+1 (error) for the i-th port of the query."""
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            # The first message on every channel repeats the port, as the client checks it.
            await socket.send(bytes([channel]) + port.to_bytes(2, "little"))
    inboxes = [Inbox() for _ in ports]
    tasks = [
        asyncio.create_task(_serve_channel(socket, backend, pod, port, index, inboxes[index]))
        for index, port in enumerate(ports)
    ]
    reader = asyncio.create_task(_read_channels(socket, inboxes))
    everything = asyncio.gather(*tasks)
    try:
        await asyncio.wait((reader, everything), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, reader):
            task.cancel()
        await asyncio.gather(everything, reader, return_exceptions=True)
        await socket.close()


async def _read_channels(socket: WebSocket, inboxes: Sequence[Inbox]) -> None:
    while (message := await socket.read()) is not None:
        if not isinstance(message, bytes) or not message:
            continue
        channel, payload = message[0], message[1:]
        if channel == CLOSE:
            channel, payload = (payload[0] if payload else CLOSE), b""
        elif not payload:
            continue
        if channel % 2 == 0 and channel // 2 < len(inboxes):
            await inboxes[channel // 2].put(payload)


async def _serve_channel(
    socket: WebSocket, backend: NodeBackend, pod: Object, port: int, index: int, inbox: Inbox
) -> None:
    try:
        connection = await backend.port_forward(pod, port)
    except (OSError, ApiError) as failed:
        await socket.send(bytes([2 * index + 1]) + _failure(pod, port, failed).encode())
        return

    async def to_pod() -> None:
        while piece := await inbox.get():
            await connection.write(piece)
        await connection.write_eof()

    upstream = asyncio.create_task(to_pod())
    try:
        while piece := await connection.read():
            await socket.send(bytes([2 * index]) + piece)
    except OSError as failed:
        await socket.send(bytes([2 * index + 1]) + _failure(pod, port, failed).encode())
    finally:
        upstream.cancel()
        await asyncio.gather(upstream, return_exceptions=True)
        await connection.close()
