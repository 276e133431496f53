"""What an anonymous connection may cost the API server, over real sockets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.raw_server import SECONDS, VERSION, WEBSOCKET, Server, running
from trainshed.cluster.apiserver import connections, http
from trainshed.cluster.apiserver import serve as serving
from trainshed.cluster.apiserver.connections import MAX_HEAD_BYTES, MAX_HEADERS, MAX_UNREAD_BYTES
from trainshed.kube.meta.resources import CONFIGMAPS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(tmp_path) as server:
        yield server


async def test_a_head_without_end_is_a_431(server: Server) -> None:
    peer = await server.connect()
    await peer.send(b"GET /version HTTP/1.1\r\nx: ")
    for _ in range(8):
        await peer.send(b"a" * (MAX_HEAD_BYTES // 4))
    assert await peer.status() == 431
    await peer.gone()
    await server.answers()


async def test_one_large_header_is_a_431_however_it_arrives(server: Server) -> None:
    for size in (MAX_HEAD_BYTES, MAX_HEAD_BYTES + 100_000):
        peer = await server.connect()
        await peer.send(b"GET /version HTTP/1.1\r\nx: " + b"a" * size + b"\r\n\r\n")
        assert await peer.status() == 431
    peer = await server.connect()
    await peer.send(b"GET /version HTTP/1.1\r\nx: " + b"a" * (1024 * 1024) + b"\r\n\r\n")
    assert await peer.status() == 200


async def test_a_method_that_nothing_has_is_a_405(server: Server) -> None:
    for method, status in ((b"FOO", 405), (b"get", 405), (b"\x16\x03\x01", 400), (b"F O", 400)):
        peer = await server.connect()
        await peer.send(method + b" /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (method, await peer.status()) == (method, status)
    await server.answers()


async def test_many_headers_are_a_431(server: Server) -> None:
    peer = await server.connect()
    await peer.send(b"GET /version HTTP/1.1\r\n" + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n")
    assert await peer.status() == 431
    await peer.gone()
    most = await server.connect()
    await most.send(b"GET /version HTTP/1.1\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n")
    assert await most.status() == 200


async def test_large_bodies_and_pipelines_are_no_heads(server: Server) -> None:
    peer = await server.connect()
    head = b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    for _ in range(8):
        await peer.send(head % 200_000 + b"x" * 200_000)
        assert await peer.status() == 403
    await peer.send(VERSION * 3)
    assert [await peer.status() for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize("sent", [b"", b"GET /ver", b"GET /version HTTP/1.1\r\nx: y", VERSION + b"GET /a"])
async def test_a_head_has_to_come_in_time(
    server: Server, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    peer = await server.connect()
    await peer.send(sent)
    await peer.gone()


async def test_a_connection_that_was_served_may_rest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the head has a deadline; between requests the keep-alive time counts."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    served, silent = await server.connect(), await server.connect()
    await served.send(VERSION)
    assert await served.status() == 200
    await silent.gone()
    await served.send(VERSION)
    assert await served.status() == 200


async def test_nobody_reads_the_body_of_a_refused_request(server: Server) -> None:
    peer = await server.connect()
    await peer.send(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n")
    assert await peer.status() == 403
    for _ in range(16):
        await peer.send(b"x" * (MAX_UNREAD_BYTES // 8))
    await peer.gone()


async def test_the_rest_of_a_refused_body_has_to_come_in_time(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    peer = await server.connect()
    await peer.send(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 3000\r\n\r\nx")
    assert await peer.status() == 403
    await peer.gone()


async def test_a_body_has_to_come_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.3)
    peer = await server.connect()
    reviews = b"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    await peer.send(
        b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\ncontent-length: 3000\r\n\r\n{"
        % (reviews, server.token.encode())
    )
    assert await peer.status() == 504


async def test_idle_connections_give_way_to_new_ones(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.Peers.__init__, "__defaults__", (8,))
    first = await server.connect()
    rest = [await server.connect() for _ in range(7)]
    await rest[0].send(VERSION)
    assert await rest[0].status() == 200
    await server.answers()
    await first.gone()
    await rest[0].send(VERSION)
    assert await rest[0].status() == 200


async def test_websockets_count_while_they_last_and_no_longer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.Peers.__init__, "__defaults__", (8,))
    first = await server.connect()
    for _ in range(20):
        ended = await server.ask("GET", "/api/v1/configmaps?watch=1", headers=WEBSOCKET)
        assert b" 101 " in await ended.reader.readline()
        ended.writer.transport.abort()
        await first.send(VERSION)
        assert await first.status() == 200, "those that have ended took its place"
    for _ in range(8):
        lasting = await server.ask("GET", "/api/v1/configmaps?watch=1", headers=WEBSOCKET)
        assert b" 101 " in await lasting.reader.readline()
    await first.gone()
    await (await server.connect()).gone()


async def test_a_handshake_has_to_come_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_SECONDS", 0.3)
    async with running(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
        writer.close()
        await server.answers()


async def fill(server: Server, number: int, size: int = 900_000) -> None:
    for index in range(number):
        obj = {"metadata": {"name": f"large-{index}"}, "data": {"k": "x" * size}}
        await server.client.create(CONFIGMAPS, obj, namespace="default")


async def told(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """Wait until the server has said `text`."""
    async with asyncio.timeout(SECONDS):
        while text not in caplog.text:
            await asyncio.sleep(0.01)


async def test_an_answer_that_nobody_reads_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    await fill(server, 16)
    peer = await server.ask("GET", "/api/v1/configmaps")
    peer.writer.transport.pause_reading()
    await told(caplog, "it has read nothing for 0 s of the answer to GET /api/v1/configmaps")
    await server.answers()
    peer.writer.transport.resume_reading()
    assert await peer.status() == 0, "the answer was cut off, and is not taken for a whole one"


async def test_a_watch_that_nobody_reads_is_given_up_and_holds_little(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "UNREAD_STREAM_SECONDS", 1.0)
    buffered: list[int] = []
    watching: list[connections.GuardedProtocol] = []
    opened = connections.Peers.opened
    monkeypatch.setattr(
        connections.Peers, "opened", lambda peers, one: (watching.append(one), opened(peers, one))[1]
    )
    peer = await server.ask("GET", "/api/v1/configmaps?watch=1&resourceVersion=0")
    assert b"200 OK" in await peer.reader.readuntil(b"\r\n\r\n")
    peer.writer.transport.pause_reading()
    obj = {"metadata": {"name": "changing"}, "data": {"k": "x" * 900_000}}
    made = await server.client.create(CONFIGMAPS, obj, namespace="default")
    for number in range(24):
        made = await server.client.update(CONFIGMAPS, {**made, "data": {"k": f"{number}" * 400_000}})
        buffered += [
            one.transport.get_write_buffer_size() for one in watching if not one.transport.is_closing()
        ]
    await told(caplog, "of the answer to GET /api/v1/configmaps")
    peer.writer.transport.resume_reading()
    await peer.gone()
    await server.answers()
    assert max(buffered) < 2_000_000, "what waits for it is one event, not all that came since"


async def test_a_user_holds_so_many_bytes_of_bodies_and_no_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many connections that send large bodies and never their end; others of the user are told to come back."""
    bodies = server.api.bodies
    monkeypatch.setattr(bodies, "_limit", 4_000_000)
    path = "/api/v1/namespaces/default/configmaps"
    body = b'{"metadata":{"name":"a"},"data":{"k":"' + b"x" * 900_000
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body) + 3}\r\n\r\n"
    slow = [await server.connect() for _ in range(4)]
    for peer in slow:
        await peer.send(head.encode() + body)
    async with asyncio.timeout(SECONDS):
        while bodies.total() < 4 * len(body):
            await asyncio.sleep(0.01)
    more = await server.connect()
    await more.send(head.encode() + body)
    assert await more.status() == 429
    for peer in slow:
        peer.writer.transport.abort()
    async with asyncio.timeout(SECONDS):
        while bodies.total():
            await asyncio.sleep(0.01)
    last = await server.connect()
    await last.send(head.encode() + body + b'"}}')
    assert await last.status() == 201
    assert bodies.total() == 0


async def test_one_long_body_of_a_user_is_worked_on_at_a_time_and_nobody_elses_waits() -> None:
    bodies, release = http.Bodies(), threading.Event()
    begun: list[str] = []

    def work(name: str) -> None:
        begun.append(name)
        assert release.wait(SECONDS)

    async def until_begun(*names: str) -> None:
        async with asyncio.timeout(SECONDS):
            while not set(names) <= set(begun):
                await asyncio.sleep(0.01)

    mine = [asyncio.create_task(bodies.in_turn("me", lambda n=n: work(f"mine {n}"))) for n in range(3)]  # type: ignore[misc]
    await until_begun("mine 0")
    other = asyncio.create_task(bodies.in_turn("another", lambda: work("another's")))
    await until_begun("another's")
    assert begun == ["mine 0", "another's"]
    release.set()
    await asyncio.gather(*mine, other)
    assert sorted(begun) == ["another's", "mine 0", "mine 1", "mine 2"]


def test_the_control_plane_opens_as_many_files_as_it_may() -> None:
    program = (
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "from trainshed.cluster.control.controlplane import raise_file_limit\n"
        "raise_file_limit()\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
