"""`pods/proxy` and `services/proxy`: requests to a port of a pod."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.cluster.api_world import ADMIN_TOKEN, MERGE, World, open_world, pod
from tests.fakes.https import PodsAt, serve_https
from tests.process.raw_server import listening
from trainshed.cluster.pki import ensure_pki

NS = "/api/v1/namespaces/default"


async def handle(request: web.Request) -> web.StreamResponse:
    if request.headers.get("upgrade", "").lower() == "websocket":
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"you said {message.data}")
        return socket
    told = {name: value for name, value in request.headers.items() if name.lower() != "user-agent"}
    body = {"asked": f"{request.method} {request.raw_path}", "body": await request.text(), "headers": told}
    return web.json_response(body, status=299)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Pods with a web server behind the Service `web`, whose ports have names."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    nodes: Any = PodsAt(runner.addresses[0][1])
    async with open_world(tmp_path, nodes=nodes) as opened:
        ports = [
            {"name": "a", "port": 80, "targetPort": 8000},
            {"name": "b", "port": 81, "targetPort": "named"},
        ]
        service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
        await opened.ok("POST", f"{NS}/services", service)
        serving = pod("one")
        serving["metadata"]["labels"] = {"app": "web"}
        serving["spec"]["containers"][0]["ports"] = [{"name": "named", "containerPort": 9000}]
        await opened.ok("POST", f"{NS}/pods", serving)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await opened.ok("PATCH", f"{NS}/pods/one/status", ready, content_type=MERGE)
        yield opened
    await runner.cleanup()


def dialled(world: World) -> tuple[str, int]:
    nodes: Any = world.api.core.nodes
    found: tuple[str, int] = nodes.dialled[-1]
    return found


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("pods/one", 9000),
        ("pods/one:7", 7),
        ("pods/http:one:7", 7),
        ("services/web:80", 8000),
        ("services/web:a", 8000),
        ("services/web:81", 9000),
        ("services/http:web:b", 9000),
    ],
)
async def test_where_a_request_goes(world: World, name: str, port: int) -> None:
    answer = await world.raw("GET", f"{NS}/{name}/proxy/a/b c/", x="1 2")
    assert (answer.status, json.loads(answer.body)["asked"]) == (299, "GET /a/b%20c/?x=1+2")
    assert dialled(world) == ("one", port)


async def test_what_is_passed_on(world: World) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await world.raw(method, f"{NS}/pods/one/proxy/x", b"text", content_type="text/plain")
        told = json.loads(answer.body)
        assert (told["asked"], told["body"]) == (f"{method} /x", "text")
    headers = told["headers"]
    assert headers["x-forwarded-uri"] == f"{NS}/pods/one/proxy/x"
    answer = await world.raw("POST", f"{NS}/pods/one/proxy/x\rx-more: y")
    headers = json.loads(answer.body)["headers"]
    assert headers["x-forwarded-uri"] == f"{NS}/pods/one/proxy/x%0Dx-more:%20y" and "x-more" not in headers
    assert not {"authorization", "x-remote-user"} & {name.lower() for name in headers}


async def test_a_page_at_the_root_is_asked_for_with_a_slash(world: World) -> None:
    answer = await world.raw("GET", f"{NS}/pods/one/proxy", a="b")
    assert (answer.status, answer.headers["location"]) == (301, f"{NS}/pods/one/proxy/?a=b")
    assert json.loads((await world.raw("POST", f"{NS}/pods/one/proxy")).body)["asked"] == "POST /"
    answer = await world.raw("GET", f"{NS}/pods/one\r\nx-more: y/proxy")
    assert answer.headers["location"] == f"{NS}/pods/one%0D%0Ax-more:%20y/proxy/"


async def test_https_and_who_may(world: World, tmp_path: Path) -> None:
    async with serve_https(tmp_path, handle, ["nobody.asks"]) as at:
        nodes: Any = PodsAt(at.port)
        world.api.core.nodes = nodes
        answer = await world.raw("GET", f"{NS}/services/https:web:80/proxy/x")
        assert json.loads(answer.body)["asked"] == "GET /x"
        refused = await world.refused(503, "GET", f"{NS}/services/web:80/proxy/x")
        assert refused["message"].startswith("error trying to reach service: ")
    pki = ensure_pki(tmp_path / "pki")
    async with (
        listening(world.api, pki) as port,
        aiohttp.ClientSession(f"https://127.0.0.1:{port}") as session,
        session.get(f"{NS}/pods/one/proxy/", ssl=False) as nobody,
    ):
        assert nobody.status == 403
        assert 'cannot get resource "pods/proxy"' in (await nobody.json())["message"]


async def test_websockets(world: World, tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path / "pki")
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    async with (
        listening(world.api, pki) as port,
        aiohttp.ClientSession(f"https://127.0.0.1:{port}", headers=headers) as session,
        session.ws_connect(f"{NS}/services/web:80/proxy/ws", ssl=False) as socket,
    ):
        await socket.send_str("hello")
        assert await socket.receive_str(timeout=30) == "you said hello"


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("pods/none/proxy/", 404, 'pods "none" not found'),
        ("pods/one:x/proxy/", 400, "invalid port 'x'"),
        ("pods/ftp:one:1/proxy/", 400, 'invalid pod request "ftp:one:1"'),
        ("services/a:b:c:d/proxy/", 400, 'invalid service request "a:b:c:d"'),
        ("services/web:9/proxy/", 400, 'no service port 9 found for service "web"'),
        ("services/web:other/proxy/", 503, 'no endpoints available for service "web"'),
        ("services/web/proxy/", 503, 'no endpoints available for service "web"'),  # its ports have names
    ],
)
async def test_where_none_goes(world: World, path: str, code: int, said: str) -> None:
    assert (await world.refused(code, "GET", f"{NS}/{path}"))["message"] == said
