"""Negotiation, discovery, health, compression, WebSockets, and who may ask what."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.api_world import ADMIN_TOKEN, MERGE, World, config_map, open_world, pod
from trainshed.client.client import warning_text
from trainshed.client.transport import Response
from trainshed.cluster.apiserver.streams import bearer

NS = "/api/v1/namespaces/default"
CMS = f"{NS}/configmaps"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


class Reply:
    """What a network client got."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""


async def call(
    world: World,
    path: str,
    *,
    method: str = "GET",
    query: str = "",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    token: str = "",
) -> Reply:
    """Send one request the way a network server does: nobody is named in the scope."""
    sent = {**(headers or {}), **({"authorization": f"Bearer {token}"} if token else {})}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
        "extensions": {},
    }
    reply, incoming = Reply(), [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return incoming.pop() if incoming else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    await asyncio.wait_for(world.api(scope, receive, send), 10)
    return reply


async def test_paths_that_lead_nowhere(world: World) -> None:
    """Rows 014, 015."""
    for path in ("/foo", "/apis/nope.example/v1/things", "/apis/nope.example", "/openapi/v3/apis/x/v1"):
        reply = await call(world, path, token=ADMIN_TOKEN)
        assert (reply.status, reply.body) == (404, b"404 page not found\n"), path
        assert reply.headers["content-type"].startswith("text/plain")
    for path in (f"{NS}/foos", "/apis/batch/v7/jobs", f"{NS}/pods/p/nope", "/apis/batch/v7"):
        reply = await call(world, path, token=ADMIN_TOKEN)
        status = json.loads(reply.body)
        assert (reply.status, status["reason"]) == (404, "NotFound"), path
        assert status["message"] == "the server could not find the requested resource"
    reply = await call(world, f"{CMS}/x", token=ADMIN_TOKEN)
    assert json.loads(reply.body)["message"] == 'configmaps "x" not found'
    reply = await call(world, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", token=ADMIN_TOKEN)
    assert reply.status == 405


async def test_discovery(world: World) -> None:
    """Rows 009-012."""
    for path in ("/api/", "/apis/", "/version/"):
        assert (await call(world, path, token=ADMIN_TOKEN)).status == 200
    reply = await call(world, "/apis", token=ADMIN_TOKEN, headers={"accept": V2BETA1})
    assert reply.headers["content-type"] == V2BETA1
    assert json.loads(reply.body)["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    shuffled = "application/json;v=v2;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io"
    reply = await call(world, "/apis", token=ADMIN_TOKEN, headers={"accept": shuffled})
    assert json.loads(reply.body)["apiVersion"] == "apidiscovery.k8s.io/v2"
    headers = {"accept": shuffled, "if-none-match": reply.headers["etag"]}
    again = await call(world, "/apis", token=ADMIN_TOKEN, headers=headers)
    assert (again.status, again.body) == (304, b"")
    root = json.loads((await call(world, "/openapi/v3", token=ADMIN_TOKEN)).body)
    where, _, query = root["paths"]["apis/batch/v1"]["serverRelativeURL"].partition("?")
    document = await call(world, where, query=query, token=ADMIN_TOKEN)
    assert "immutable" in document.headers["cache-control"]
    protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    old = await call(world, "/openapi/v2", token=ADMIN_TOKEN, headers=protobuf)
    assert old.status == 200 and b"io.k8s.api.core.v1.PodSpec" in old.body
    assert "proto-openapi" in old.headers["content-type"]
    tagged = {**protobuf, "if-none-match": old.headers["etag"]}
    same = await call(world, "/openapi/v2", token=ADMIN_TOKEN, headers=tagged)
    assert (same.status, same.body) == (304, b"")
    plain = await call(world, "/openapi/v2", token=ADMIN_TOKEN)
    assert plain.headers["etag"] != old.headers["etag"]
    whole = json.loads(plain.body)
    assert whole["swagger"] == "2.0"
    assert "/api/v1/namespaces/{namespace}/pods/{name}/exec" in whole["paths"]


async def test_response_headers_and_compression(world: World) -> None:
    await world.ok("POST", CMS, config_map("big", k="x" * 200_000))
    plain = await call(world, f"{CMS}/big", token=ADMIN_TOKEN)
    assert plain.headers["content-type"] == "application/json"
    assert plain.headers["cache-control"] == "no-cache, private"
    assert plain.headers["audit-id"]
    assert "content-encoding" not in plain.headers
    packed = await call(world, f"{CMS}/big", token=ADMIN_TOKEN, headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < 5000
    assert gzip.decompress(packed.body) == plain.body


async def test_yaml_both_ways(world: World) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'y'}\ndata: {k: 'v', t: '2001-01-01'}\n"
    made = await world.raw("POST", CMS, body, content_type="application/yaml", accept="application/yaml")
    assert made.status == 201
    got = await world.raw("GET", f"{CMS}/y", accept="application/yaml")
    assert got.headers["content-type"] == "application/yaml"
    assert b"t: '2001-01-01'" in got.body


async def test_field_validation(world: World) -> None:
    body = {**config_map("a"), "foo": 1}
    error = await world.refused(400, "POST", CMS, body, fieldValidation="Strict")
    assert 'strict decoding error: unknown field "foo"' in error["message"]
    response = await world.raw("POST", CMS, body)
    assert response.warnings == ('299 - "unknown field \\"foo\\""',)
    assert "foo" not in json.loads(response.body)
    quiet = await world.raw("PUT", f"{CMS}/a", body, fieldValidation="Ignore")
    assert not quiet.warnings
    twice = b'{"metadata":{"name":"b"},"data":{"a":"1","a":"2"}}'
    error = await world.refused(400, "POST", CMS, twice, fieldValidation="Strict")
    assert 'duplicate field "data.a"' in error["message"]
    await world.refused(422, "POST", CMS, body, fieldValidation="Maybe")
    error = await world.refused(400, "POST", CMS, {"metadata": {"name": "c"}, "data": "text"})
    assert "cannot unmarshal string" in error["message"]


async def test_health_says_what_is_wrong(tmp_path: Path) -> None:
    state = {"problem": ""}
    async with open_world(tmp_path, health_checks={"node": lambda: state["problem"]}) as world:
        assert (await call(world, "/readyz")).body == b"ok"
        assert b"[+]node ok" in (await call(world, "/readyz", query="verbose")).body
        state["problem"] = "not registered"
        reply = await call(world, "/readyz")
        assert reply.status == 500
        assert b"[-]node failed: not registered" in reply.body
        assert (await call(world, "/readyz/node")).status == 500


_BROWSERS = [
    bearer.PREFIX + base64.urlsafe_b64encode(ADMIN_TOKEN.encode()).decode().rstrip("="),
    "base64.binary.k8s.io",
]


_ADMIN = [(b"authorization", f"Bearer {ADMIN_TOKEN}".encode())]


@pytest.mark.parametrize(
    ("headers", "subprotocols"),
    [(_ADMIN, []), ([], _BROWSERS), (_ADMIN, ["binary.k8s.io"]), (_ADMIN, ["mine"])],
    ids=["a header", "a browser", "binary", "unknown"],
)
async def test_a_watch_over_a_websocket(
    world: World, headers: list[tuple[bytes, bytes]], subprotocols: list[str]
) -> None:
    """Headlamp: one text message per event, whatever the subprotocol, as recorded from Kubernetes 1.33."""
    await world.ok("POST", CMS, config_map("a"))
    await world.ok("POST", CMS, config_map("b"))
    sent: asyncio.Queue[Any] = asyncio.Queue()
    received: asyncio.Queue[Any] = asyncio.Queue()
    received.put_nowait({"type": "websocket.connect"})
    scope = {
        "type": "websocket",
        "path": CMS,
        "query_string": b"watch=1",
        "headers": headers,
        "subprotocols": list(subprotocols),
        "extensions": {"websocket.http.response": {}},
    }
    serving = asyncio.ensure_future(world.api(scope, received.get, sent.put))
    accepted = await asyncio.wait_for(sent.get(), 5)
    assert accepted["type"] == "websocket.accept", accepted
    assert accepted["subprotocol"] == (subprotocols[-1] if subprotocols else None)
    names = []
    while len(names) < 2:
        message = await asyncio.wait_for(sent.get(), 5)
        if message.get("text"):
            names.append(json.loads(message["text"])["object"]["metadata"]["name"])
    assert names == ["a", "b"]
    received.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await asyncio.wait_for(serving, 5)


async def test_a_watch_over_a_websocket_takes_one_subprotocol_at_most(world: World) -> None:
    sent: list[Any] = []

    async def opened() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": CMS,
        "query_string": b"watch=1",
        "headers": _ADMIN,
        "subprotocols": ["base64.binary.k8s.io", "binary.k8s.io"],
        "extensions": {"websocket.http.response": {}},
    }
    await world.api(scope, opened, send)
    assert sent[0]["status"] == 400


async def test_errors_are_yaml_for_who_takes_yaml(world: World) -> None:
    for path, status, query in (
        (f"{CMS}/nope", 404, {}),
        (CMS, 400, {"fieldSelector": "a=b"}),
        (CMS, 406, {"watch": "1"}),
    ):
        reply = await world.raw("GET", path, accept="application/yaml", **query)
        assert (reply.status, reply.headers["content-type"]) == (status, "application/yaml")
        assert yaml.safe_load(reply.body)["code"] == status
    reply = await world.raw("GET", f"{CMS}/nope", accept="application/json, application/yaml")
    assert json.loads(reply.body)["code"] == 404


async def test_logs_and_exec_without_a_node(world: World) -> None:
    await world.ok("POST", f"{NS}/pods", pod("p"))
    response = await world.raw("GET", f"{NS}/pods/p/log")
    assert (response.status, response.body) == (204, b"")
    error = await world.refused(400, "GET", f"{NS}/pods/p/log", container="zz")
    assert error["message"] == "container zz is not valid for pod p"
    await world.refused(422, "GET", f"{NS}/pods/p/log", tailLines="-1")
    await world.refused(404, "GET", f"{NS}/pods/nope/log")
    two = pod("two")
    two["spec"]["containers"].append({"name": "side", "image": "i"})
    await world.ok("POST", f"{NS}/pods", two)
    error = await world.refused(400, "GET", f"{NS}/pods/two/log")
    assert error["message"] == "a container name must be specified for pod two, choose one of: [c side]"
    error = await world.refused(400, "GET", f"{NS}/pods/p/exec", command="ls")
    assert error["message"] == "pod p does not have a host assigned"
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await world.ok("POST", f"{NS}/pods/p/binding", target)
    status = {"status": {"phase": "Succeeded"}}
    await world.ok("PATCH", f"{NS}/pods/p/status", status, content_type=MERGE)
    await world.refused(503, "GET", f"{NS}/pods/p/exec", command="ls")


class Metering:
    """Nodes that are only measured."""

    async def node_usage(self) -> dict[str, dict[str, str]]:
        return {"n1": {"cpu": "154m", "memory": "1024Ki"}, "gone": {"cpu": "1", "memory": "1Ki"}}

    async def pod_usage(self) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
        return {("default", "p"): {"c": {"cpu": "1m", "memory": "2Mi"}}}


async def test_metrics(tmp_path: Path) -> None:
    async with open_world(tmp_path, nodes=Metering()) as world:
        await world.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        await world.ok("POST", f"{NS}/pods", pod("p"))
        nodes = await world.ok("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
        assert [(n["metadata"]["name"], n["usage"]["cpu"]) for n in nodes["items"]] == [("n1", "154m")]
        one = await world.ok("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p")
        assert one["containers"] == [{"name": "c", "usage": {"cpu": "1m", "memory": "2Mi"}}]
        await world.refused(404, "GET", "/apis/metrics.k8s.io/v1beta1/nodes/gone")


AUTHZ, AUTHN = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": "x"}, 400),
        ("POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": ["x"]}}, 400),
        ("POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": {}}}}, 400),
        ("POST", f"{AUTHZ}/subjectaccessreviews", {"spec": {"user": {"a": 1}}}, 400),
        ("POST", f"{AUTHZ}/subjectaccessreviews", {"spec": {"user": "x", "groups": [[]]}}, 400),
        ("POST", f"{AUTHZ}/namespaces/default/localsubjectaccessreviews", {"spec": 1}, 400),
        ("POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": []}}, 400),
        ("POST", f"{AUTHN}/tokenreviews", {"spec": {"token": {}}}, 400),
        ("POST", f"{AUTHN}/tokenreviews", {"metadata": "x", "spec": {"token": "x"}}, 400),
        ("POST", f"{AUTHN}/tokenreviews", {"kind": "Pod", "spec": {"token": "x"}}, 400),
        ("POST", f"{AUTHN}/tokenreviews", {"spec": {"token": "x", "audiences": "x"}}, 400),
        ("POST", f"{AUTHN}/selfsubjectreviews", {"metadata": []}, 400),
        ("DELETE", f"{CMS}/a", {"preconditions": "x"}, 400),
        ("DELETE", f"{CMS}/a", {"preconditions": {"uid": 1}}, 400),
        ("DELETE", f"{CMS}/a", {"dryRun": 1}, 400),
        ("DELETE", f"{CMS}/a", {"propagationPolicy": {}}, 400),
        ("DELETE", f"{CMS}/a", {"orphanDependents": "x"}, 400),
        ("DELETE", f"{CMS}/a", {"gracePeriodSeconds": "x"}, 400),
        ("POST", f"{NS}/pods/p/eviction", {"deleteOptions": "x"}, 400),
        ("POST", f"{NS}/pods/p/eviction", {"deleteOptions": {"preconditions": ["x"]}}, 400),
        ("POST", f"{NS}/pods/p/binding", {"target": "x"}, 400),
        ("POST", f"{NS}/pods/p/binding", {"target": {"name": {}}}, 400),
        ("POST", f"{NS}/serviceaccounts/default/token", {"spec": "x"}, 400),
        ("POST", f"{NS}/serviceaccounts/default/token", {"spec": {"boundObjectRef": 1}}, 400),
        ("PUT", f"{NS}/replicationcontrollers/r/scale", {"spec": "x"}, 400),
    ],
)
async def test_fields_of_a_wrong_type(world: World, method: str, path: str, body: Any, status: int) -> None:
    await world.ok("POST", CMS, config_map("a"))
    error = await world.refused(status, method, path, body)
    assert error["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("path", "spec", "why"),
    [
        (
            "subjectaccessreviews",
            {"resourceAttributes": {"verb": "get"}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {"verb": "get", "namespace": "other"}},
            'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
        ),
    ],
)
async def test_reviews_that_ask_nothing_are_refused(world: World, path: str, spec: Any, why: str) -> None:
    error = await world.refused(422, "POST", f"{AUTHZ}/{path}", {"spec": spec})
    assert error["message"] == f'.authorization.k8s.io "" is invalid: {why}'


@pytest.mark.parametrize("metadata", ["x", ["x"], 1, True])
async def test_an_applied_configuration_whose_metadata_is_no_object(world: World, metadata: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    options = {"content_type": "application/apply-patch+yaml", "fieldManager": "me"}
    await world.refused(400, "PATCH", f"{CMS}/a", body, **options)


@pytest.mark.parametrize("seconds", ["x", "1e3", "9" * 30, "9" * 400])
async def test_a_watch_whose_timeout_is_no_number(world: World, seconds: str) -> None:
    await world.refused(400, "GET", CMS, watch="1", timeoutSeconds=seconds)


def texts(response: Response) -> list[str]:
    return [warning_text(header) for header in response.warnings]


async def test_warnings_are_headers_that_clients_can_read(world: World) -> None:
    """No control characters, no more headers than Python's client reads (100), no longer than aiohttp's (8190)."""
    odd = {**config_map("odd"), "a\r\nX: y\x00": 1}
    response = await world.raw("POST", CMS, odd)
    assert response.status == 201 and texts(response) == ['unknown field "a\\u000d\\u000aX: y\\u0000"']
    many = {**config_map("many"), **{f"field-{number}": 1 for number in range(1_000)}, "x" * 100_000: 1}
    response = await world.raw("POST", CMS, many)
    assert response.status == 201 and len(texts(response)) == 50
    assert texts(response)[0] == 'unknown field "field-0"'
    assert texts(response)[-1] == "952 more warnings"
    long = {**config_map("long"), "x" * 100_000: 1}
    (warning,) = texts(await world.raw("POST", CMS, long))
    assert len(warning) == 1_000 and warning.endswith("...")


@pytest.mark.parametrize("path", ["/healthz", CMS])
async def test_an_unexpected_error_is_a_500(
    world: World, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(world.api.core.authorizer, "authorize", fail)
    error = await world.refused(500, "GET", path)
    assert error["message"] == "Internal error occurred: ZeroDivisionError: oops"
    assert "request failed" in caplog.text


async def test_a_long_yaml_document_keeps_nobody_waiting(world: World) -> None:
    """A hundred kilobytes of YAML take a tenth of a second to read; a request takes its turns meanwhile."""
    lines = "\n".join(f"  k{i}: v" for i in range(10_000))
    body = f"metadata: {{name: big}}\ndata:\n{lines}\n".encode()
    writing = asyncio.create_task(world.raw("POST", CMS, body, content_type="application/yaml", dryRun="All"))
    turns = 0
    while not writing.done():
        await world.ok("GET", "/version")
        turns += 1
        await asyncio.sleep(0)
    assert (await writing).status == 201
    assert turns > 5
