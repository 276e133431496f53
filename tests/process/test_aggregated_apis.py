"""APIServices: another API server, behind a Service, serves a group as if it were part of this one."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.cluster.api_world import ADMIN_TOKEN, MERGE, World, open_world, pod
from tests.fakes.https import Https, PodsAt, serve_https
from tests.process.raw_server import listening
from trainshed.cluster.apiserver.aggregation import Credentials
from trainshed.cluster.pki import ensure_pki
from trainshed.kube.meta.objects import Object

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GROUP = "/apis/fish.test/v1"
FISH = f"{GROUP}/namespaces/default/fishes"
ENTRY = {
    "name": "fishes",
    "singularName": "fish",
    "namespaced": True,
    "kind": "Fish",
    "verbs": ["get", "list", "watch"],
    "shortNames": ["fi"],
}
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "fish.test/v1",
    "resources": [ENTRY, {**ENTRY, "name": "fishes/feed", "verbs": ["create"], "shortNames": []}],
}


class Extension:
    """A small API server, which keeps who asked it for what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, list[str]]]] = []
        self.at: Https | None = None
        self.next_fish: asyncio.Queue[str] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): request.headers.getall(name) for name in request.headers}
        if request.path.startswith(FISH):
            self.asked.append((request.method, request.path_qs, headers))
        if request.path == GROUP:
            return web.json_response(RESOURCES)
        if request.path == f"/openapi/v3{GROUP}":
            return web.json_response(
                {"openapi": "3.0.0", "info": {"title": "fish", "version": "1"}, "paths": {}}
            )
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._echo(request)
        if request.path == FISH and request.query.get("watch"):
            answer = web.StreamResponse(headers={"content-type": "application/json"})
            await answer.prepare(request)
            while fish := await self.next_fish.get():
                await answer.write(json.dumps({"type": "ADDED", "object": {"kind": fish}}).encode() + b"\n")
            return answer
        if request.path == FISH:
            return web.json_response(
                {"kind": "FishList", "apiVersion": "fish.test/v1", "metadata": {}, "items": []}
            )
        if request.path == f"{FISH}/one/feed":
            return web.json_response(
                {"fed": await request.text()}, status=201, headers={"warning": '299 - "not much"'}
            )
        return web.json_response({"kind": "Status", "code": 404, "message": "no such fish"}, status=404)

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        async for message in socket:
            if message.data == "bye":
                break
            await (socket.send_str if message.type is aiohttp.WSMsgType.TEXT else socket.send_bytes)(
                message.data
            )
        return socket


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    pki = ensure_pki(tmp_path / "pki")
    credentials = Credentials(pki.front_proxy_certificate, pki.front_proxy_key)
    async with open_world(tmp_path, credentials=credentials) as opened:
        running = asyncio.create_task(opened.api.run())
        yield opened
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def extension(tmp_path: Path, world: World) -> AsyncIterator[Extension]:
    """A server in a pod that believes the front proxy alone, behind the Service `fish`."""
    made = Extension()
    proxy_ca = tmp_path / "pki" / "front-proxy-ca.crt"
    async with serve_https(tmp_path, made.handle, ["fish.default.svc"], client_ca=proxy_ca) as made.at:
        world.api.core.nodes = PodsAt(made.at.port)  # type: ignore[assignment]
        ports = [{"name": "https", "port": 443, "targetPort": 6443}]
        service = {"metadata": {"name": "fish"}, "spec": {"selector": {"app": "fish"}, "ports": ports}}
        await world.ok("POST", "/api/v1/namespaces/default/services", service)
        serving = pod("fish-1")
        serving["metadata"]["labels"] = {"app": "fish"}
        await world.ok("POST", "/api/v1/namespaces/default/pods", serving)
        await set_ready(world, "True")
        yield made


async def set_ready(world: World, status: str) -> None:
    body = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    await world.ok("PATCH", "/api/v1/namespaces/default/pods/fish-1/status", body, content_type=MERGE)


def api_service(extension: Extension, **spec: Any) -> Object:
    assert extension.at is not None
    wanted = {
        "group": "fish.test",
        "version": "v1",
        "groupPriorityMinimum": 2000,
        "versionPriority": 10,
        "service": {"name": "fish", "namespace": "default"},
        "caBundle": extension.at.bundle,
        **spec,
    }
    return {
        "metadata": {"name": "v1.fish.test"},
        "spec": {key: one for key, one in wanted.items() if one is not None},
    }


async def condition(world: World, status: str, name: str = "v1.fish.test") -> Object:
    """Return the condition Available once it has this status."""
    async with asyncio.timeout(30):
        while True:
            answer = await world.raw("GET", f"{SERVICES}/{name}")
            held = json.loads(answer.body)["status"].get("conditions") if answer.status == 200 else None
            held = held or [{}]
            if held[0].get("status") == status:
                return dict(held[0])
            await asyncio.sleep(0.02)


@asynccontextmanager
async def on_a_socket(
    world: World, home: Path
) -> AsyncIterator[tuple[aiohttp.ClientSession, ssl.SSLContext]]:
    """Serve the world on loopback; yield a client of it."""
    pki = ensure_pki(home / "pki")
    trust = ssl.create_default_context(cafile=pki.ca_certificate)
    async with (
        listening(world.api, pki) as port,
        aiohttp.ClientSession(f"https://127.0.0.1:{port}") as session,
    ):
        yield session, trust


async def test_requests_are_passed_on_with_the_user_in_headers(world: World, extension: Extension) -> None:
    await world.ok("POST", SERVICES, api_service(extension))
    found = await condition(world, "True")
    assert (found["reason"], found["message"]) == ("Passed", "all checks passed")
    listed = await world.ok("GET", FISH, labelSelector="a=b")
    assert listed["kind"] == "FishList"
    method, path, headers = extension.asked[-1]
    assert (method, path) == ("GET", f"{FISH}?labelSelector=a%3Db")
    assert headers["x-remote-user"] == ["tester"]
    assert headers["x-remote-group"] == ["system:masters", "system:authenticated"]
    assert headers["host"] == ["fish.default.svc"] and "authorization" not in headers
    fed = await world.raw("POST", f"{FISH}/one/feed", b"worms", content_type="text/plain")
    assert (fed.status, json.loads(fed.body)) == (201, {"fed": "worms"})
    assert fed.warnings == ('299 - "not much"',)
    missing = await world.refused(404, "GET", f"{FISH}/nemo")
    assert missing["message"] == "no such fish"


async def test_discovery_and_openapi_are_one(world: World, extension: Extension) -> None:
    await world.ok("POST", SERVICES, api_service(extension))
    await condition(world, "True")
    groups = [group["name"] for group in (await world.ok("GET", "/apis"))["groups"]]
    assert groups[-1] == "fish.test"
    assert (await world.ok("GET", "/apis/fish.test"))["preferredVersion"]["groupVersion"] == "fish.test/v1"
    assert await world.ok("GET", GROUP) == RESOURCES
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    merged = await world.ok("GET", "/apis", accept=accept)
    fish = next(item for item in merged["items"] if item["metadata"]["name"] == "fish.test")
    assert fish["versions"] == [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "fishes",
                    "responseKind": {"group": "fish.test", "version": "v1", "kind": "Fish"},
                    "scope": "Namespaced",
                    "singularResource": "fish",
                    "verbs": ["get", "list", "watch"],
                    "shortNames": ["fi"],
                    "subresources": [
                        {
                            "subresource": "feed",
                            "responseKind": {"group": "fish.test", "version": "v1", "kind": "Fish"},
                            "verbs": ["create"],
                        }
                    ],
                }
            ],
        }
    ]
    path = (await world.ok("GET", "/openapi/v3"))["paths"]["apis/fish.test/v1"]["serverRelativeURL"]
    document = await world.ok("GET", path.partition("?")[0])
    assert document["info"]["title"] == "fish"
    await world.ok("DELETE", f"{SERVICES}/v1.fish.test")
    assert "fish.test" not in [group["name"] for group in (await world.ok("GET", "/apis"))["groups"]]
    assert (await world.raw("GET", FISH)).status == 404


async def test_who_may_not_is_told_so_here(world: World, extension: Extension, tmp_path: Path) -> None:
    await world.ok("POST", SERVICES, api_service(extension))
    await condition(world, "True")
    async with on_a_socket(world, tmp_path) as (session, tls):
        async with session.get(FISH, ssl=tls) as answer:
            assert answer.status == 403
        # What a client says of itself is not passed on.
        lies = {"authorization": f"Bearer {ADMIN_TOKEN}", "x-remote-user": "root", "x-remote-extra-a": "b"}
        async with session.get(FISH, headers=lies, ssl=tls) as answer:
            assert answer.status == 200
    headers = extension.asked[-1][2]
    assert headers["x-remote-user"] == ["trainshed-admin"] and "x-remote-extra-a" not in headers
    assert "authorization" not in headers


async def test_watches_and_websockets_are_streamed(
    world: World, extension: Extension, tmp_path: Path
) -> None:
    await world.ok("POST", SERVICES, api_service(extension))
    await condition(world, "True")
    async with world.lines(FISH) as lines:
        for name in ("Cod", "Eel"):
            extension.next_fish.put_nowait(name)
            assert (await lines.next())["object"]["kind"] == name
        extension.next_fish.put_nowait("")
        assert await lines.next() is None
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    async with on_a_socket(world, tmp_path) as (session, tls):
        connect = session.ws_connect(
            f"{FISH}/one/exec", protocols=["v5.channel.k8s.io"], ssl=tls, headers=headers
        )
        async with asyncio.timeout(20), connect as socket:
            assert socket.protocol == "v5.channel.k8s.io"
            await socket.send_bytes(b"\x00hello")
            assert await socket.receive_bytes() == b"\x00hello"
            await socket.send_str("text")
            assert await socket.receive_str() == "text"
            await socket.send_str("bye")
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_one_that_cannot_be_asked_is_503_and_says_why(world: World, extension: Extension) -> None:
    await world.ok("POST", SERVICES, api_service(extension, service={"name": "none", "namespace": "default"}))
    found = await condition(world, "False")
    assert (found["reason"], found["message"]) == (
        "ServiceNotFound",
        'service/none in "default" is not present',
    )
    refused = await world.raw("GET", FISH)
    assert (refused.status, refused.body) == (503, b"service unavailable\n")
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    merged = await world.ok("GET", "/apis", accept=accept)
    fish = next(item for item in merged["items"] if item["metadata"]["name"] == "fish.test")
    assert fish["versions"] == [{"version": "v1", "freshness": "Stale", "resources": []}]


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        (
            {"service": {"name": "fish", "namespace": "default", "port": 8443}},
            "ServicePortError",
            "not listening on",
        ),
        ({"caBundle": None, "insecureSkipTLSVerify": None}, "FailedDiscoveryCheck", "certificate"),
        ({"version": "v2"}, "FailedDiscoveryCheck", "bad status from https://"),
    ],
)
async def test_what_is_wrong_is_in_the_condition(
    world: World, extension: Extension, spec: Object, reason: str, words: str
) -> None:
    wanted = api_service(extension, **spec)
    wanted["metadata"]["name"] = f"{wanted['spec']['version']}.fish.test"
    await world.ok("POST", SERVICES, wanted)
    found = await condition(world, "False", wanted["metadata"]["name"])
    assert found["reason"] == reason and words in found["message"]


async def test_one_comes_back_when_its_pod_does(world: World, extension: Extension) -> None:
    await set_ready(world, "False")
    await world.ok("POST", SERVICES, api_service(extension, caBundle=None, insecureSkipTLSVerify=True))
    found = await condition(world, "False")
    assert (found["reason"], found["message"]) == (
        "MissingEndpoints",
        'endpoints for service/fish in "default" have no addresses with port name "https"',
    )
    await set_ready(world, "True")
    await condition(world, "True")
    await world.ok("GET", FISH)
    await set_ready(world, "False")
    gone = await world.raw("GET", FISH)
    assert (
        gone.status == 503
        and b'error trying to reach service: no endpoints available for service "fish"' in gone.body
    )


async def test_what_is_served_here_is_listed_as_local(world: World, extension: Extension) -> None:
    await condition(world, "True", "v1.apps")
    local = await world.ok("GET", f"{SERVICES}/v1.")
    assert local["status"]["conditions"][0]["reason"] == "Local"
    table = await world.ok(
        "GET", f"{SERVICES}/v1.apps", accept="application/json;as=Table;g=meta.k8s.io;v=v1"
    )
    assert table["rows"][0]["cells"][:3] == ["v1.apps", "Local", "True"]
    taken = api_service(extension, group="apps")
    taken["metadata"]["name"] = "v1.apps"
    await world.refused(409, "POST", SERVICES, taken)
    # Nobody takes over what the cluster stands on.
    await world.ok("PATCH", f"{SERVICES}/v1.apps", {"spec": taken["spec"]}, content_type=MERGE)
    assert (await world.ok("GET", "/apis/apps/v1/deployments"))["kind"] == "DeploymentList"
    await condition(world, "True", "v1.batch")
    await world.ok("DELETE", f"{SERVICES}/v1.batch")
    await condition(world, "True", "v1.batch")


async def test_metrics_may_come_from_another_server(world: World, extension: Extension) -> None:
    own = await world.ok("GET", "/apis/metrics.k8s.io/v1beta1")
    assert [entry["name"] for entry in own["resources"]] == ["nodes", "pods"]
    metrics = api_service(extension, group="metrics.k8s.io", version="v1beta1")
    metrics["metadata"]["name"] = "v1beta1.metrics.k8s.io"
    await world.ok("POST", SERVICES, metrics)
    assert (await world.raw("GET", "/apis/metrics.k8s.io/v1beta1/nodes")).status == 503
    await world.ok("DELETE", f"{SERVICES}/v1beta1.metrics.k8s.io")
    assert (await world.ok("GET", "/apis/metrics.k8s.io/v1beta1")) == own


async def test_an_apiservice_is_checked(world: World, extension: Extension) -> None:
    wrong = api_service(extension, groupPriorityMinimum=0, versionPriority=2000, insecureSkipTLSVerify=True)
    wrong["metadata"]["name"] = "other"
    wrong["spec"]["service"] = {"name": "", "namespace": "default", "port": 70000}
    refused = await world.refused(422, "POST", SERVICES, wrong)
    assert [cause["field"] for cause in refused["details"]["causes"]] == [
        "metadata.name",
        "spec.groupPriorityMinimum",
        "spec.versionPriority",
        "spec.service.name",
        "spec.service.port",
        "spec.insecureSkipTLSVerify",
    ]
