"""Both transports give a client the same: one suite over the direct ASGI call and HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.credentials import TokenFile
from trainshed.client.http import HttpTransport, Tls
from trainshed.client.transport import Transport, TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS, NODES, PODS
from trainshed.kube.wire.options import LogOptions
from trainshed.kube.wire.request import Request


class Echo:
    """An ASGI application that answers with what it was asked, and a few odd responses."""

    def __init__(self) -> None:
        self.disconnected = asyncio.Event()
        self.release = asyncio.Event()
        self.token = ""
        self.requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.requests += 1
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        body = (await receive())["body"]
        path = scope["path"]
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            await _reply(send, 401, b"Unauthorized")
        elif path == "/crash":
            raise RuntimeError("boom")
        elif path.endswith("/pods") and b"watch=true" in scope["query_string"]:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            frame = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'
            # A frame in two chunks, then an error frame after the client has seen the first.
            await send({"type": "http.response.body", "body": frame[:20], "more_body": True})
            await send({"type": "http.response.body", "body": frame[20:], "more_body": True})
            await self.release.wait()
            error = {
                "type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"},
            }
            await send(
                {"type": "http.response.body", "body": msgspec.json.encode(error) + b"\n", "more_body": True}
            )
            await send({"type": "http.response.body", "body": b""})
        elif path.endswith("/log"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"line\n", "more_body": True})
            message = await receive()
            assert message["type"] == "http.disconnect", message
            self.disconnected.set()
        elif path.endswith("/missing"):
            status = ApiError(404, "NotFound", 'pods "missing" not found').status()
            await _reply(send, 404, msgspec.json.encode(status))
        elif path.endswith("/proxy-error"):
            await _reply(send, 502, b"<html>bad gateway</html>")
        else:
            seen = {
                "metadata": {"name": "echo"},
                "method": scope["method"],
                "path": path,
                "query": scope["query_string"].decode(),
                "body": body.decode(),
                "contentType": headers.get("content-type"),
                "agent": headers.get("user-agent"),
                "user": scope.get("extensions", {}).get("trainshed.user"),
            }
            await _reply(
                send,
                200,
                msgspec.json.encode(seen),
                [(b"warning", b'299 - "a"'), (b"warning", rb'299 - "b \"quoted\""')],
            )


async def _reply(send: Any, status: int, body: bytes, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"x-thing", b"1")]})
    await send({"type": "http.response.body", "body": body})


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1; return (certificate, key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = directory / "tls.crt", directory / "tls.key"
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_path, key_path


@asynccontextmanager
async def serve(app: Any, directory: Path | None = None) -> AsyncIterator[tuple[str, Path | None]]:
    """Run `app` on a loopback port, over TLS when `directory` is given; yield (url, CA file)."""
    files = make_certificate(directory) if directory else (None, None)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_level="critical",
        lifespan="off",
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
    )
    server = uvicorn.Server(config)
    # `serve` would take over SIGINT and SIGTERM of the test process.
    task = asyncio.create_task(server._serve())
    async with asyncio.timeout(10):
        while not server.started:
            await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'https' if directory else 'http'}://127.0.0.1:{port}", files[0]
    finally:
        server.should_exit = True
        server.force_exit = True
        await asyncio.wait_for(task, 10)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture(params=["asgi", "https"])
async def transport(request: pytest.FixtureRequest, echo: Echo, tmp_path: Path) -> AsyncIterator[Transport]:
    if request.param == "asgi":
        direct = AsgiTransport(echo, "alice", ["staff"], user_agent="tester")
        yield direct
        await direct.close()
        return
    async with serve(echo, tmp_path) as (url, ca):
        remote = HttpTransport(url, tls=Tls(ca=ca.read_text()), user_agent="tester")
        yield remote
        await remote.close()


async def test_request_carries_method_path_query_body_and_type(transport: Transport) -> None:
    query = [("a", "b c"), ("a", "2")]
    response = await transport.request(Request("POST", "/api/v1/x", query, b"hello", "text/x"))
    seen = msgspec.json.decode(response.body)
    assert response.status == 200
    assert response.headers["x-thing"] == "1"
    assert response.warnings == ('299 - "a"', r'299 - "b \"quoted\""')
    assert (seen["method"], seen["path"], seen["query"]) == ("POST", "/api/v1/x", "a=b+c&a=2")
    assert (seen["body"], seen["contentType"], seen["agent"]) == ("hello", "text/x", "tester")


@pytest.mark.parametrize(
    "path", ["/x/system:node", "/x/a b", "/x/a?b#c", "/x/100%41", "/x/ü", "/x/a\r\nEvil: 1"]
)
async def test_any_path_arrives_as_it_is(transport: Transport, path: str) -> None:
    response = await transport.request(Request("GET", path))
    assert msgspec.json.decode(response.body)["path"] == path


async def test_body_without_type_sends_no_content_type(transport: Transport) -> None:
    response = await transport.request(Request("POST", "/x", body=b"{}"))
    assert msgspec.json.decode(response.body)["contentType"] is None


async def test_crash_before_the_answer_is_a_failure(transport: Transport) -> None:
    """A server in front of the app may turn the crash into a 500; either way the caller learns of it."""
    try:
        assert (await transport.request(Request("GET", "/crash"))).status == 500
    except TransportError as error:
        assert "boom" in str(error)


async def test_leaving_a_stream_disconnects_the_server(transport: Transport, echo: Echo) -> None:
    async with aclosing(Client(transport).logs("p", "default", LogOptions(follow=True))) as chunks:
        assert await anext(chunks) == b"line\n"
        assert not echo.disconnected.is_set()
    await asyncio.wait_for(echo.disconnected.wait(), 5)


async def test_cancelling_a_reader_disconnects_the_server(transport: Transport, echo: Echo) -> None:
    first = asyncio.Event()

    async def read() -> None:
        async with transport.stream(Request("GET", "/log")) as stream:
            async for _ in stream.chunks():
                first.set()

    task = asyncio.create_task(read())
    await asyncio.wait_for(first.wait(), 5)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(echo.disconnected.wait(), 5)


async def test_closing_leaves_no_connection_open_not_even_of_requests_that_were_cancelled(
    echo: Echo, tmp_path: Path
) -> None:
    async with serve(echo, tmp_path) as (url, ca):
        remote = HttpTransport(url, tls=Tls(ca=ca.read_text()))
        first = asyncio.Event()

        async def read() -> None:
            async with remote.stream(Request("GET", "/log")) as stream:
                async for _ in stream.chunks():
                    first.set()

        await remote.request(Request("GET", "/x"))
        task = asyncio.create_task(read())
        await asyncio.wait_for(first.wait(), 5)
        assert _connections(url) == 1
        task.cancel()
        await asyncio.wait([task])
        await remote.close()
        assert _connections(url) == 0


def _connections(url: str) -> int:
    """Return how many sockets this process has open to the server."""
    address = ("127.0.0.1", URL(url).port)
    open_ones = [one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0]
    found = 0
    for one in open_ones:
        with contextlib.suppress(OSError):  # not connected
            found += one.getpeername() == address
    return found


async def test_watch_yields_before_the_stream_ends_then_raises_410(transport: Transport, echo: Echo) -> None:
    async with aclosing(Client(transport).watch(PODS, "default", resource_version="5")) as events:
        event = await asyncio.wait_for(anext(events), 5)
        assert (event.type, event.resource_version) == ("ADDED", "7")
        echo.release.set()
        with pytest.raises(ApiError) as caught:
            await asyncio.wait_for(anext(events), 5)
        assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_errors_carry_the_status_or_the_text(transport: Transport) -> None:
    client = Client(transport)
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "missing", "default")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    with pytest.raises(ApiError, match="bad gateway") as caught:
        await client.get(PODS, "proxy-error", "default")
    assert caught.value.code == 502


async def test_client_paths_and_parameters(transport: Transport) -> None:
    """Namespaces: the object's, then the argument, then the client's; field manager from the user agent."""
    client = Client(transport, user_agent="trainshed/0.1", namespace="team")
    seen = await client.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "own"}}, namespace="arg")
    assert seen["path"] == "/api/v1/namespaces/own/configmaps"
    assert seen["query"] == "fieldManager=trainshed"
    seen = await client.create(CONFIGMAPS, {"metadata": {"name": "c"}}, namespace="arg", dry_run=True)
    assert seen["path"] == "/api/v1/namespaces/arg/configmaps"
    assert "dryRun=All" in seen["query"]
    seen = await client.update(PODS, {"metadata": {"name": "p"}}, subresource="status")
    assert (seen["method"], seen["path"]) == ("PUT", "/api/v1/namespaces/team/pods/p/status")
    seen = await client.get(NODES, "n", "ignored")
    assert seen["path"] == "/api/v1/nodes/n"
    seen = await client.delete(PODS, "p", uid="u", grace_period_seconds=0)
    assert msgspec.json.decode(seen["body"]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }
    seen = await client.apply(CONFIGMAPS, {"metadata": {"name": "c"}}, field_manager="m")
    assert seen["contentType"] == "application/apply-patch+yaml"
    assert seen["query"] == "fieldManager=m&force=true"


async def test_warnings_reach_the_caller(transport: Transport) -> None:
    heard: list[str] = []
    await Client(transport, on_warning=heard.append).get(PODS, "x", "default")
    assert heard == ["a", 'b "quoted"']


async def test_asgi_says_who_asks(echo: Echo) -> None:
    transport = AsgiTransport(echo, "alice", ["staff"])
    seen = msgspec.json.decode((await transport.request(Request("GET", "/x"))).body)
    assert seen["user"] == {"username": "alice", "groups": ["staff"]}


async def test_cancelled_asgi_request_lets_the_application_finish() -> None:
    """A write whose client went away is still whole: the application is told, not torn down."""
    entered, finished = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        await asyncio.sleep(0)
        finished.set()

    transport = AsgiTransport(app, "alice")
    task = asyncio.create_task(transport.request(Request("POST", "/x", body=b"{}")))
    await asyncio.wait_for(entered.wait(), 5)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.wait_for(finished.wait(), 5)


async def test_slow_reader_holds_the_application_back() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2000):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent += 1

    async with AsgiTransport(app, "alice").stream(Request("GET", "/x")) as stream:
        for _ in range(10):
            await asyncio.sleep(0)
        assert 0 < sent < 2000
        assert len(await stream.read()) == 2000


async def test_unknown_authority_is_refused(echo: Echo, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other, _ = make_certificate(tmp_path / "other")
    async with serve(echo, tmp_path) as (url, _):
        transport = HttpTransport(url, tls=Tls(ca=other.read_text()))
        with pytest.raises(TransportError, match="certificate"):
            await transport.request(Request("GET", "/x"))
        await transport.close()
    assert echo.requests == 0


async def test_rotated_token_is_read_again(echo: Echo, tmp_path: Path) -> None:
    echo.token = "one"
    file = tmp_path / "token"
    file.write_text("one\n")
    async with serve(echo) as (url, _):
        transport = HttpTransport(url, credentials=TokenFile(str(file)))
        assert (await transport.request(Request("GET", "/x"))).status == 200
        echo.token = "two"
        assert (await transport.request(Request("GET", "/x"))).status == 401
        (tmp_path / "next").write_text("two")
        (tmp_path / "next").replace(file)
        assert (await transport.request(Request("GET", "/x"))).status == 200
        await transport.close()


async def test_refused_connection_is_a_transport_error() -> None:
    transport = HttpTransport("http://127.0.0.1:9")
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:9"):
        await transport.request(Request("GET", "/x"))
    await transport.close()
