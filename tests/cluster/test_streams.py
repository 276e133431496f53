"""Streams in process: protocols and refusals that no kubectl of the e2e matrix exercises."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.fakes.local_node import LocalNode
from tests.fakes.spdy_client import SpdyClient
from trainshed.cluster.apiserver.streams import pods
from trainshed.cluster.apiserver.streams.binary import serve_chunks
from trainshed.cluster.apiserver.streams.inbox import MAX_WAITING_BYTES, Inbox
from trainshed.cluster.apiserver.streams.portforward import forward_spdy
from trainshed.cluster.apiserver.streams.rejection import reject
from trainshed.cluster.apiserver.streams.remotecommand import bridge, exit_status, parse_resize
from trainshed.cluster.apiserver.streams.spdychannels import SpdyChannels
from trainshed.cluster.apiserver.streams.spdysession import MAX_STREAMS, Session, Stream
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.asgi import Handshake

DEADLINE = 10.0
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "0d7c"}}


class Browser:
    """The client's end of an ASGI WebSocket: scripted messages in, everything the server sent out."""

    def __init__(self, *protocols: str, query: str = "") -> None:
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "subprotocols": list(protocols),
            "headers": [],
            "query_string": query.encode(),
        }
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.inbox.put_nowait({"type": "websocket.connect"})
        self.sent: list[Any] = []
        self.accepted: str | None = None
        self.close_code: int | None = None

    def say(self, data: bytes | str) -> None:
        key = "text" if isinstance(data, str) else "bytes"
        self.inbox.put_nowait({"type": "websocket.receive", key: data})

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "websocket.disconnect", "code": 1005})

    async def receive(self) -> dict[str, Any]:
        return await self.inbox.get()

    async def send(self, message: Any) -> None:
        match message["type"]:
            case "websocket.accept":
                self.accepted = message.get("subprotocol") or ""
            case "websocket.close":
                self.close_code = message["code"]
                self.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
            case _:
                self.sent.append(message.get("bytes") or message.get("text"))

    async def exec(self, node: LocalNode, *command: str, **asked: bool) -> None:
        async with asyncio.timeout(DEADLINE):
            request = ExecRequest("main", command, **{"stdout": True, "stderr": True, **asked})
            await pods.serve_exec(Handshake(self.scope, self.receive, self.send), node, POD, request)


async def test_close_message_ends_stdin_in_v5() -> None:
    browser = Browser("v5.channel.k8s.io")
    browser.say(b"\x00hello")
    browser.say(b"\xff\x00")
    await browser.exec(LocalNode(), "cat", stdin=True)
    assert browser.sent == [b"\x01", b"\x01hello", b"\x03" + msgspec.json.encode(exit_status(0))]
    assert (browser.accepted, browser.close_code) == ("v5.channel.k8s.io", 1000)


async def test_first_known_protocol_of_the_client_wins() -> None:
    browser = Browser("v9.channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io")
    await browser.exec(LocalNode(), "true")
    assert browser.accepted == "v4.channel.k8s.io"


async def test_base64_channels_are_text() -> None:
    browser = Browser("base64.channel.k8s.io")
    await browser.exec(LocalNode(), "echo", "hi")
    assert browser.sent == ["1", "1" + base64.b64encode(b"hi\n").decode()]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"stderr": False}, [b"\x01", b"\x01out\n"]),
        ({"stdout": False}, [b"\x02", b"\x02err\n"]),
        ({"stdout": False, "stderr": False, "stdin": True}, [b"\x03"]),
    ],
    ids=["stdout", "stderr", "neither"],
)
async def test_streams_that_a_client_did_not_ask_for_are_not_sent(
    asked: dict[str, bool], sent: list[bytes]
) -> None:
    browser = Browser("v4.channel.k8s.io")
    await browser.exec(LocalNode(), "sh", "-c", "echo out; echo err >&2", **asked)
    assert browser.sent == [*sent, b"\x03" + msgspec.json.encode(exit_status(0))]


async def test_old_protocols_report_a_failure_as_text() -> None:
    browser = Browser()
    await browser.exec(LocalNode(), "false")
    assert browser.sent == [b"\x01", b"\x03command terminated with non-zero exit code: exit status 1"]


async def test_leaving_hangs_up_the_process() -> None:
    node, browser = LocalNode(), Browser("v4.channel.k8s.io")
    browser.leave()
    await browser.exec(node, "sleep", "600")
    assert node.sessions[0].closed.is_set()


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ({"type": "http", "headers": []}, "Upgrade request required"),
        ({"type": "websocket", "subprotocols": ["v9"], "headers": []}, "none of the subprotocols v9"),
    ],
)
async def test_refusals_start_no_process(scope: dict[str, Any], message: str) -> None:
    node, browser = LocalNode(), Browser()
    browser.scope = scope
    with pytest.raises(ApiError, match=message) as raised:
        await browser.exec(node, "true")
    assert raised.value.code == 400
    assert node.sessions == []
    assert browser.accepted is None


@pytest.mark.parametrize("command", [(), ("\0",), ("echo", "a\0b")])
async def test_a_command_that_cannot_run_is_refused(command: tuple[str, ...]) -> None:
    node, browser = LocalNode(), Browser("v5.channel.k8s.io")
    with pytest.raises(ApiError, match="command") as raised:
        await browser.exec(node, *command)
    assert (raised.value.code, node.sessions) == (400, [])


async def test_reject_answers_both_scopes() -> None:
    for kind, prefix in (("http", "http"), ("websocket", "websocket.http")):
        sent: list[Any] = []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        await reject({"type": kind}, send, ApiError(429, "TooMany", "slow", headers={"Retry-After": "1"}))
        assert [m["type"] for m in sent] == [f"{prefix}.response.start", f"{prefix}.response.body"]
        assert sent[0]["status"] == 429
        assert (b"retry-after", b"1") in sent[0]["headers"]
        assert msgspec.json.decode(sent[1]["body"])["message"] == "slow"


@pytest.mark.parametrize(
    ("protocols", "text", "expected"),
    [
        ((), False, [b"one", b"two"]),
        (("binary.k8s.io",), False, [b"one", b"two"]),
        (("base64.binary.k8s.io",), False, ["b25l", "dHdv"]),
        ((), True, ["one", "two"]),
        (("base64.binary.k8s.io",), True, ["one", "two"]),
    ],
)
async def test_chunks(protocols: tuple[str, ...], text: bool, expected: list[Any]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    browser = Browser(*protocols)
    async with asyncio.timeout(DEADLINE):
        await serve_chunks(browser.scope, browser.receive, browser.send, chunks(), text=text)
    assert browser.sent == expected if text else browser.sent[1:] == expected
    assert browser.close_code == 1000


async def test_chunks_end_when_the_client_leaves() -> None:
    ended = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            ended.set()

    browser = Browser()
    browser.leave()
    async with asyncio.timeout(DEADLINE):
        await serve_chunks(browser.scope, browser.receive, browser.send, chunks())
    assert ended.is_set()
    with pytest.raises(ApiError) as raised:
        await serve_chunks(Browser("v9").scope, browser.receive, browser.send, chunks())
    assert raised.value.code == 403


@pytest.mark.parametrize("query", ["", "ports=", "ports=80,x", "ports=70000"])
async def test_port_forward_checks_its_ports(query: str) -> None:
    browser = Browser("v4.channel.k8s.io", query=query)
    with pytest.raises(ApiError) as raised:
        await pods.serve_port_forward(
            Handshake(browser.scope, browser.receive, browser.send), LocalNode(), POD
        )
    assert raised.value.code == 400
    assert browser.accepted is None


def test_resize_messages() -> None:
    size = parse_resize(b'{"Width":80,"Height":24}\n')
    assert size is not None
    assert (size.width, size.height) == (80, 24)
    for broken in (
        b"",
        b"x",
        b"[]",
        b'{"Width":80}',
        b'{"Width":-1,"Height":2}',
        b'{"Width":"a","Height":2}',
    ):
        assert parse_resize(broken) is None


class Pipe:
    """The server's end of a byte channel; the test holds the SPDY client at the other end."""

    def __init__(self) -> None:
        self.client = SpdyClient()
        self.inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.frames: list[tuple[str, int, bytes, bool]] = []
        self.changed = asyncio.Event()
        self.closed = False

    async def read(self) -> bytes:
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        self.frames += self.client.receive(data)
        self.changed.set()

    async def close(self) -> None:
        self.closed = True

    def open(self, **headers: str) -> int:
        number, frame = self.client.open(headers)
        self.inbox.put_nowait(frame)
        return number

    def say(self, stream: int, data: bytes, *, end: bool = False) -> None:
        self.inbox.put_nowait(self.client.data(stream, data, end=end))

    def payload(self, stream: int) -> bytes:
        return b"".join(f[2] for f in self.frames if f[:2] == ("data", stream))

    async def until_ended(self, *numbers: int) -> None:
        """Wait until the server has ended these streams."""
        async with asyncio.timeout(DEADLINE):
            while not set(numbers) <= {f[1] for f in self.frames if f[0] == "data" and f[3]}:
                self.changed.clear()
                await self.changed.wait()


async def test_spdy_waits_for_streams_and_ends_them_all() -> None:
    pipe, node = Pipe(), LocalNode()
    error, stdout = pipe.open(streamtype="error"), pipe.open(streamtype="stdout")
    async with asyncio.timeout(DEADLINE):
        request = ExecRequest("main", ("sh", "-c", "echo hi; exit 3"), stdout=True)
        channels = await SpdyChannels.open(Session(pipe), "v4.channel.k8s.io", request)
        session = await node.exec(POD, request)
        task = asyncio.create_task(bridge(session, channels, report_exit=True))
        await pipe.until_ended(error, stdout)
        pipe.inbox.put_nowait(b"")  # the client hangs up
        await task
    assert pipe.payload(stdout) == b"hi\n"
    assert msgspec.json.decode(pipe.payload(error)) == exit_status(3)
    assert pipe.closed


async def test_spdy_client_that_leaves_before_its_streams() -> None:
    pipe = Pipe()
    pipe.open(streamtype="error")
    pipe.inbox.put_nowait(b"")
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(TimeoutError):
            request = ExecRequest("main", ("true",), stdout=True)
            await SpdyChannels.open(Session(pipe), "v4.channel.k8s.io", request)
    assert pipe.closed


async def test_port_forward_passes_half_closed_connections() -> None:
    """The server behind the port answers only after the client has ended its half."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    target = await asyncio.start_server(answer, "127.0.0.1", 0)
    pipe, node = Pipe(), LocalNode()
    node.ports[80] = target.sockets[0].getsockname()[1]
    error = pipe.open(streamtype="error", port="80", requestid="0")
    data = pipe.open(streamtype="data", port="80", requestid="0")
    pipe.say(data, b"hello")
    pipe.say(data, b"", end=True)
    task = asyncio.create_task(forward_spdy(Session(pipe), node, POD))
    await pipe.until_ended(error, data)
    bad = (
        pipe.open(streamtype="error", port="x", requestid="1"),
        pipe.open(streamtype="data", port="x", requestid="1"),
    )
    await pipe.until_ended(*bad)
    pipe.inbox.put_nowait(b"")
    async with asyncio.timeout(DEADLINE):
        await task
    assert pipe.payload(data) == b"HELLO"
    assert pipe.payload(error) == b""
    assert b"not a number" in pipe.payload(bad[0])
    target.close()
    await target.wait_closed()


async def settled(task: asyncio.Task[None]) -> None:
    """Let a task go on until it has ended, or waits for something that does not come by itself."""
    for _ in range(100):
        await asyncio.sleep(0)
        if task.done():
            return


async def test_input_that_no_process_takes_is_not_taken_from_the_client() -> None:
    pipe = Pipe()
    pipe.open(streamtype="stdin")
    stdin, piece = 1, b"x" * 300_000
    for _ in range(20):
        pipe.say(stdin, piece)
    session = Session(pipe)
    opened: list[Stream] = []

    async def read() -> None:
        async for stream in session.streams():
            opened.append(stream)

    task = asyncio.create_task(read())
    await settled(task)
    held = 20 - pipe.inbox.qsize()
    assert held * len(piece) <= MAX_WAITING_BYTES + 2 * len(piece), "a bound in bytes, not in frames"
    received = 0
    for _ in range(20):
        received += len(await opened[0].read())
        await settled(task)
    assert received == 20 * len(piece)
    pipe.inbox.put_nowait(b"")
    async with asyncio.timeout(DEADLINE):
        await task
    assert await opened[0].read() == b""


async def test_small_pieces_and_ends_of_input_are_counted_too() -> None:
    inbox = Inbox(limit=10_000)
    putting = asyncio.create_task(inbox.put(b""))
    await settled(putting)
    count = 1
    while putting.done() and count < 1_000:
        count += 1
        putting = asyncio.create_task(inbox.put(b""))
        await settled(putting)
    assert count < 1_000
    inbox.clear()
    async with asyncio.timeout(DEADLINE):
        await putting


async def test_a_client_that_opens_streams_without_end_is_hung_up_on() -> None:
    pipe = Pipe()
    task = asyncio.create_task(forward_spdy(Session(pipe), LocalNode(), POD))
    for number in range(MAX_STREAMS + 1):
        pipe.open(streamtype="data", port="80", requestid=str(number))
    async with asyncio.timeout(DEADLINE):
        await task
    assert pipe.closed
    assert sum(frame[0] == "reply" for frame in pipe.frames) == MAX_STREAMS
