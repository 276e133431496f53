"""Clients that stop reading a stream: it waits for them and does not grow, others are served, and it ends in time."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.local_node import LocalNode, LocalProcess, Tcp
from tests.fakes.spdy_client import SpdyClient
from tests.process.raw_server import SECONDS, WEBSOCKET, Peer, Server, running
from trainshed.cluster.apiserver import connections
from trainshed.cluster.apiserver.streams.wsprotocol import GuardedWebSocket
from trainshed.cluster.backend import ExecRequest, LogRequest
from trainshed.cluster.node.pod.logs import read_logs
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS, SERVICEACCOUNTS

PATH = "/api/v1/namespaces/default/pods/web"
CHANNELS = WEBSOCKET + "sec-websocket-protocol: {}\r\n"
SPDY = "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: {}\r\n"
ENDLESS = ("yes", "x" * 1000)
HELD_BYTES = 1_000_000
"""What may wait in this process for one client: its buffer, a piece or two, a frame around them."""


class Source:
    """What a stream takes from its pod."""

    def __init__(self) -> None:
        self.taken = 0
        self.ended = asyncio.Event()


class Process(LocalProcess):
    source: Source

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        async with contextlib.aclosing(super().output()) as output:
            async for channel, data in output:
                self.source.taken += len(data)
                yield channel, data

    async def close(self) -> None:
        await super().close()
        self.source.ended.set()


class Connection(Tcp):
    source: Source

    async def read(self) -> bytes:
        data = await super().read()
        self.source.taken += len(data)
        return data

    async def close(self) -> None:
        await super().close()
        self.source.ended.set()


class Node(LocalNode):
    """A node whose pod prints, logs and sends without end."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.source = Source()
        self.main = list(ENDLESS)
        self._log = log
        self._print()

    def _print(self) -> None:
        """Log a megabyte more than was read."""
        line = b"2026-01-01T00:00:00.000000000Z stdout F " + b"x" * 16_000 + b"\n"
        with self._log.open("ab") as log:
            while log.tell() < self.source.taken + 1_000_000:
                log.write(line)

    def of(self, pod: Object) -> Node:
        return self

    async def logs(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        try:
            async for chunk in read_logs(self._log, request, ended=lambda: False):
                self.source.taken += len(chunk)
                self._print()
                yield chunk
        finally:
            self.source.ended.set()

    async def exec(self, pod: Object, request: ExecRequest) -> LocalProcess:
        session = await Process.start(request.command, stdin=request.stdin, tty=request.tty)
        session.source = self.source
        return session

    async def port_forward(self, pod: Object, port: int) -> Tcp:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.ports[port]))
        connection.source = self.source
        return connection


@pytest.fixture
async def endless() -> AsyncIterator[int]:
    """The port of a program that sends without end."""

    async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

    async with await asyncio.start_server(send, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


class World:
    """An API server with one pod, and its end of the newest connection."""

    def __init__(self, server: Server, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.node, self.source = server, node, node.source
        self._guards: list[connections.GuardedProtocol] = []
        opened = connections.Peers.opened

        def seen(peers: connections.Peers, guard: connections.GuardedProtocol) -> None:
            self._guards.append(guard)
            opened(peers, guard)

        monkeypatch.setattr(connections.Peers, "opened", seen)

    async def ask(self, method: str, path: str, headers: str = "") -> tuple[Peer, asyncio.Transport]:
        """Return a connection whose answer has begun, and the server's end of it."""
        peer = await self.server.ask(method, PATH + path, headers=headers)
        head = await asyncio.wait_for(peer.reader.readuntil(b"\r\n\r\n"), SECONDS)
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")), head
        return peer, self._guards[-1].transport

    async def held(self, transport: asyncio.Transport) -> int:
        """Wait until the stream stands still, while others are served; return how much it took from the pod."""
        async with asyncio.timeout(SECONDS):
            while True:
                before = self.source.taken
                for _ in range(10):
                    await self.server.answers()
                    assert transport.get_write_buffer_size() < HELD_BYTES
                if before == self.source.taken and _paused(transport):
                    return before


def _paused(transport: asyncio.Transport) -> bool:
    protocol: Any = transport.get_protocol()
    writable = getattr(protocol, "writable", None)
    return bool(protocol.flow.write_paused) if writable is None else not writable.is_set()


@pytest.fixture
async def world(tmp_path: Path, endless: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    node = Node(tmp_path / "log")
    node.ports[80] = endless
    async with running(tmp_path) as server:
        server.api.core.nodes = node
        await server.client.create(SERVICEACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
        spec = {"nodeName": "here", "containers": [{"name": "main", "image": "here", "stdin": True}]}
        await server.client.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")
        yield World(server, node, monkeypatch)


async def log_followed(world: World) -> tuple[Peer, asyncio.Transport]:
    return await world.ask("GET", "/log?follow=true")


async def websocket_exec(world: World) -> tuple[Peer, asyncio.Transport]:
    command = "&".join(f"command={word}" for word in ENDLESS)
    return await world.ask("GET", f"/exec?{command}&stdout=1", CHANNELS.format("v5.channel.k8s.io"))


async def websocket_attach(world: World) -> tuple[Peer, asyncio.Transport]:
    return await world.ask("GET", "/attach?stdout=1", CHANNELS.format("v4.channel.k8s.io"))


async def websocket_forward(world: World) -> tuple[Peer, asyncio.Transport]:
    return await world.ask("GET", "/portforward?ports=80", CHANNELS.format("v4.channel.k8s.io"))


async def spdy_exec(world: World) -> tuple[Peer, asyncio.Transport]:
    command = "&".join(f"command={word}" for word in ENDLESS)
    peer, transport = await world.ask("POST", f"/exec?{command}&stdout=1", SPDY.format("v4.channel.k8s.io"))
    client = SpdyClient()
    await peer.send(b"".join(client.open({"streamtype": name})[1] for name in ("error", "stdout")))
    return peer, transport


def pair() -> bytes:
    """Return the frames that open a connection to port 80."""
    client = SpdyClient()
    headers = {"port": "80", "requestid": "0"}
    return b"".join(client.open({**headers, "streamtype": name})[1] for name in ("error", "data"))


async def spdy_forward(world: World) -> tuple[Peer, asyncio.Transport]:
    peer, transport = await world.ask("POST", "/portforward", SPDY.format("portforward.k8s.io"))
    await peer.send(pair())
    return peer, transport


async def tunnel_forward(world: World) -> tuple[Peer, asyncio.Transport]:
    headers = CHANNELS.format("SPDY/3.1+portforward.k8s.io")
    peer, transport = await world.ask("GET", "/portforward", headers)
    await peer.send(frame(0x2, pair()))
    return peer, transport


def frame(opcode: int, payload: bytes) -> bytes:
    """Return a whole WebSocket message as a client sends it (RFC 6455): masked, with zeros."""
    size = (
        bytes([0x80 | len(payload)]) if len(payload) < 126 else struct.pack("!BH", 0x80 | 126, len(payload))
    )
    return bytes([0x80 | opcode]) + size + bytes(4) + payload


STREAMS = (
    log_followed,
    websocket_exec,
    websocket_attach,
    websocket_forward,
    spdy_exec,
    spdy_forward,
    tunnel_forward,
)


async def read_on(peer: Peer, size: int) -> int:
    """Return how much of the next `size` bytes came before the server hung up."""
    received = 0
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(SECONDS):
            while received < size and (data := await peer.reader.read(65536)):
                received += len(data)
    return received


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
async def test_a_stream_waits_for_its_client_and_not_for_ever(
    stream: Any, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    peer, transport = await stream(world)
    peer.writer.transport.pause_reading()
    taken = await world.held(transport)
    assert await read_on(peer, taken + HELD_BYTES) >= taken + HELD_BYTES, (
        "what it did not read was kept for it"
    )
    for name in ("UNREAD_STREAM_SECONDS", "UNREAD_UPGRADED_SECONDS"):
        monkeypatch.setattr(connections, name, 0.3)
    await read_on(peer, 4 * HELD_BYTES)  # the next time that it waits is one with that limit
    peer.writer.transport.pause_reading()
    async with asyncio.timeout(SECONDS):
        await world.source.ended.wait()
    assert "it has read nothing for 0 s of the answer to" in caplog.text and f"{PATH}/" in caplog.text
    await world.server.answers()


async def test_answers_to_pings_do_not_pile_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    handle = GuardedWebSocket.handle_ping
    monkeypatch.setattr(
        GuardedWebSocket,
        "handle_ping",
        lambda protocol, event: (seen.append(event), handle(protocol, event))[1],
    )
    peer, transport = await websocket_exec(world)
    peer.writer.transport.pause_reading()
    await world.held(transport)
    before = transport.get_write_buffer_size()
    peer.writer.write(frame(0x9, b"p" * 125) * 1_999 + frame(0x9, b"the newest"))
    async with asyncio.timeout(SECONDS):
        while len(seen) < 2_000:
            await asyncio.sleep(0.01)
    assert transport.get_write_buffer_size() <= before
    peer.writer.transport.resume_reading()
    answer, received = bytes([0x8A, 10]) + b"the newest", b""
    async with asyncio.timeout(SECONDS):
        while answer not in received:
            received = received[-len(answer) :] + await peer.reader.read(65536)
