"""Admission webhooks, called over TLS by a URL and through a Service into a pod."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.cluster.api_world import World, config_map, pod
from tests.fakes.https import Https, PodsAt, serve_https
from trainshed.certificates import make_authority
from trainshed.kube.meta.objects import Object

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Author:
    """A webhook server: answers with what `decide` returns, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Object] = []
        self.decide: Callable[[Object], Object] = lambda request: {"allowed": True}
        self.at: Https | None = None

    async def handle(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())["request"]
        self.asked.append({**review, "path": request.path_qs})
        response = {"uid": review["uid"], **self.decide(review)}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    def config(self, path: str = "/") -> Object:
        assert self.at is not None
        return dict(self.at.config(path))


@pytest.fixture
async def author(tmp_path: Path) -> AsyncIterator[Author]:
    made = Author()
    async with serve_https(tmp_path, made.handle, ["hook.default.svc"]) as made.at:
        yield made


async def register(world: World, config: Object, *, mutating: bool = False, **fields: Any) -> None:
    hook = {
        "name": "check.example.com",
        "clientConfig": config,
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
    await world.ok("POST", f"{HOOKS}/{plural}", {"metadata": {"name": "hooks"}, "webhooks": [hook]})


async def test_a_webhook_refuses_and_warns(world: World, author: Author) -> None:
    await register(world, author.config("/check"))
    author.decide = lambda request: {
        "allowed": request["name"] != "bad",
        "warnings": ["mind the gap"],
        "status": {"code": 418, "message": "no teapots"},
    }
    good = await world.raw("POST", MAPS, config_map("good", a="1"))
    assert good.status == 201 and any("mind the gap" in text for text in good.warnings)
    refused = await world.refused(418, "POST", MAPS, config_map("bad"))
    assert refused["message"] == 'admission webhook "check.example.com" denied the request: no teapots'
    asked = author.asked[0]
    assert (asked["operation"], asked["namespace"], asked["path"]) == (
        "CREATE",
        "default",
        "/check?timeout=10s",
    )
    assert asked["object"]["data"] == {"a": "1"} and asked["oldObject"] is None
    assert asked["userInfo"]["username"] == "tester"


async def test_updates_and_deletions_are_asked_about_as_well(world: World, author: Author) -> None:
    await world.ok("POST", MAPS, config_map("m", a="1"))
    await register(world, author.config())
    await world.ok("PATCH", f"{MAPS}/m", {"data": {"a": "2"}}, content_type="application/merge-patch+json")
    author.decide = lambda request: {"allowed": request["operation"] != "DELETE"}
    refused = await world.refused(400, "DELETE", f"{MAPS}/m")
    assert "denied the request without explanation" in refused["message"]
    assert [(r["operation"], r["object"] is None, r["oldObject"]["data"]) for r in author.asked] == [
        ("UPDATE", False, {"a": "1"}),
        ("DELETE", True, {"a": "2"}),
    ]


def adds(value: str) -> Callable[[Object], Object]:
    patch = [{"op": "add", "path": "/data", "value": {"added": value}}]
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_a_mutating_webhook_changes_what_is_stored(world: World, author: Author) -> None:
    author.decide = adds("x")
    await register(world, author.config(), mutating=True)
    made = await world.ok("POST", MAPS, config_map("m"))
    assert made["data"] == {"added": "x"}
    assert (await world.ok("GET", f"{MAPS}/m"))["data"] == {"added": "x"}


async def test_what_a_webhook_breaks_is_refused(world: World, author: Author) -> None:
    author.decide = adds("x")
    await register(world, author.config(), mutating=True)
    patch = [{"op": "replace", "path": "/data", "value": {"not a key!": "x"}}]
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    author.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
    await world.refused(422, "POST", MAPS, config_map("m", a="b"))


async def test_a_webhook_that_cannot_be_asked(world: World, author: Author) -> None:
    stranger = make_authority("x", datetime.now(UTC)).certificate
    wrong = {**author.config(), "caBundle": base64.b64encode(stranger.encode()).decode()}
    await register(world, wrong, failurePolicy="Fail")
    refused = await world.refused(500, "POST", MAPS, config_map("m"))
    text = refused["message"]
    assert (
        'failed calling webhook "check.example.com": failed to call webhook: Post "https://127.0.0.1' in text
    )
    await world.ok("DELETE", f"{HOOKS}/validatingwebhookconfigurations/hooks")
    await register(world, wrong, failurePolicy="Ignore")
    await world.ok("POST", MAPS, config_map("m"))


async def test_one_that_ends_its_answer_by_hanging_up(world: World, author: Author, tmp_path: Path) -> None:
    """As Python's http.server does: no length, no end of TLS. Go takes such an answer, too."""
    status = "200 OK"

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        uid = msgspec.json.decode(await reader.readexactly(length))["request"]["uid"]
        response = {"uid": uid, "allowed": True, "warnings": ["seen"]}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        writer.write(f"HTTP/1.0 {status}\r\n\r\n".encode() + msgspec.json.encode(review))
        await writer.drain()
        writer.transport.abort()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    await register(world, {**author.config(), "url": f"https://127.0.0.1:{port}/"})
    reply = await world.raw("POST", MAPS, config_map("m"))
    assert reply.status == 201 and any("seen" in text for text in reply.warnings)
    status = "500 Oops"
    refused = await world.refused(500, "POST", MAPS, config_map("n"))
    assert "an error on the server" in refused["message"]
    server.close()


async def test_one_that_does_not_answer_takes_as_long_as_it_may(world: World) -> None:
    held: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    await register(world, {"url": url}, timeoutSeconds=1)
    refused = await world.refused(500, "POST", MAPS, config_map("m"))
    assert "context deadline exceeded" in refused["message"]
    for writer in held:
        writer.close()
    server.close()


async def test_selectors_conditions_and_dry_runs(world: World, author: Author) -> None:
    author.decide = lambda request: {"allowed": False}
    condition = {"name": "marked", "expression": "object.metadata.name.startsWith('x')"}
    selector = {"matchLabels": {"guard": "yes"}}
    await register(
        world,
        author.config(),
        objectSelector=selector,
        matchConditions=[condition],
        sideEffects="NoneOnDryRun",
    )
    await world.ok("POST", MAPS, config_map("x1"))
    await world.ok("POST", MAPS, config_map("other", {"guard": "yes"}))
    await world.refused(400, "POST", MAPS, config_map("x2", {"guard": "yes"}))
    await world.refused(400, "POST", MAPS, config_map("x2", {"guard": "yes"}), dryRun="All")
    assert [request["dryRun"] for request in author.asked] == [False, True]


async def test_a_configuration_is_checked(world: World) -> None:
    hook = {"name": "short", "clientConfig": {"url": "http://x"}}
    hook |= {"sideEffects": "Some", "admissionReviewVersions": ["v2"]}
    wrong = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    hook |= {"objectSelector": wrong}
    body = {"metadata": {"name": "h"}, "webhooks": [hook]}
    refused = await world.refused(422, "POST", f"{HOOKS}/validatingwebhookconfigurations", body)
    fields = [cause["field"] for cause in refused["details"]["causes"]]
    assert fields == [
        "webhooks[0].name",
        "webhooks[0].sideEffects",
        "webhooks[0].objectSelector.matchExpressions[0].operator",
        "webhooks[0].clientConfig.url",
        "webhooks[0].admissionReviewVersions",
    ]


async def test_a_service_leads_to_a_ready_pod(world: World, author: Author) -> None:
    assert author.at is not None
    node = PodsAt(author.at.port)
    world.api.core.nodes = node  # type: ignore[assignment]
    ports = [{"port": 443, "targetPort": "https"}]
    service = {"metadata": {"name": "hook"}, "spec": {"selector": {"app": "hook"}, "ports": ports}}
    await world.ok("POST", "/api/v1/namespaces/default/services", service)
    author.decide = lambda request: {"allowed": False, "status": {"message": "from the pod"}}
    bundle = author.config()["caBundle"]
    config = {"service": {"name": "hook", "namespace": "default", "path": "/v"}, "caBundle": bundle}
    await register(world, config)
    refused = await world.refused(500, "POST", MAPS, config_map("m"))
    assert 'no endpoints available for service "hook"' in refused["message"]
    serving = pod("hook-1")
    serving["metadata"]["labels"] = {"app": "hook"}
    serving["spec"]["containers"][0]["ports"] = [{"name": "https", "containerPort": 9443}]
    await world.ok("POST", "/api/v1/namespaces/default/pods", serving)
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    merge = "application/merge-patch+json"
    await world.ok("PATCH", "/api/v1/namespaces/default/pods/hook-1/status", status, content_type=merge)
    refused = await world.refused(400, "POST", MAPS, config_map("m"))
    assert refused["message"].endswith("denied the request: from the pod")
    assert node.dialled == [("hook-1", 9443)]
