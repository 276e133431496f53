"""Plays a sequence against any API server, and takes out of the answers what differs from run to run."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from tests.conformance.recorded.answering import Asked, serve_hooks
from tests.conformance.recorded.applies import APPLIES
from tests.conformance.recorded.steps import CRDS, Step
from trainshed.client.transport import Response, Transport
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.patch.types import APPLY
from trainshed.kube.wire.request import Request

_SERVED_SECONDS = 30.0
_FROM_BEFORE = re.compile(r"\{(rv|continue|uid):(\d+)\}")
_BY_NAME = ("APIResourceList", "APIGroupList", "APIGroupDiscoveryList")
_TIMES = {
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "time",
    "startTime",
}
_VARYING = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "continue": "<token>",
    "clusterIP": "<address>",
    "nodePort": "<port>",
    "healthCheckNodePort": "<port>",
    "storageVersionHash": "<hash>",
    "token": "<token>",
    "caBundle": "<bundle>",
    "expirationTimestamp": "<time>",
}
_COLUMN = "Custom resource definition column"
_RANDOM = [
    (re.compile(r"127\.0\.0\.1:\d{3,}"), "127.0.0.1:<port>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<random>"),
    (re.compile(r"\bg-[a-z0-9]{5}\b"), "g-<random>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x<address>"),
    (re.compile(r"Invalid value: \"\{.*\}\": ", re.DOTALL), 'Invalid value: "<object>": '),
    (re.compile(r"^\d+s$"), "<age>"),
    (re.compile(r"(?<=precondition \()\d+|(?<=record \()\d+|(?<=, current: )\d+"), "<version>"),
    (re.compile(r"Bad_[a-z0-9]{5}"), "Bad_<random>"),
    (re.compile(r"(x{50})x*[a-z0-9]{5}\b"), r"\1"),
    (re.compile(r"^(admin|tester)$"), "<user>"),
    (re.compile(r"(?<=too old resource version: )\d+ \(\d+\)"), "<versions>"),
    (re.compile(r"selfType\d+"), "object"),
    (re.compile(r"^kube-apiserver-133$"), "kube-apiserver"),
    (re.compile(r"^10(\.\d+){3}$"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
]

_AGE = re.compile(r"(\d+[smhd])+")


def namespace_of(sequence: str) -> str:
    """Return the namespace in which a sequence is played."""
    return "recorded-" + sequence.replace(" ", "-")


async def play(
    transport: Transport,
    sequence: str,
    steps: list[Step],
    pass_a_second: Callable[[], Awaitable[None]],
    *,
    real: bool = True,
    compact: Callable[[], Awaitable[None]] | None = None,
) -> list[Object]:
    """Return the normalised answers, `{code, body}` each, with warnings and content type where they tell something.

    `{rv:N}` in a query or a body stands for the resourceVersion of answer N, `{continue:N}` for its token, `{uid:N}`
    for its uid. The namespace is made and deleted. Between the requests of sequences that ask whose fields are, a
    second passes: what is of which write is then seen.
    """
    async with serve_hooks() if sequence.startswith("webhook") else nullcontext() as hooks:
        return await _played(transport, sequence, steps, pass_a_second, hooks, compact, real=real)


async def _played(
    transport: Transport,
    sequence: str,
    steps: list[Step],
    pass_a_second: Callable[[], Awaitable[None]],
    hooks: Asked | None,
    compact: Callable[[], Awaitable[None]] | None,
    *,
    real: bool,
) -> list[Object]:
    namespace = namespace_of(sequence)
    for path, name in (
        ("/api/v1/namespaces", namespace),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", "default"),
    ):
        made = await transport.request(_request(Step("POST", path, {"metadata": {"name": name}}), namespace))
        if made.status not in (201, 409):
            raise RuntimeError(f"POST {path}: {made.status} {made.body!r}")
    answers: list[Object] = []
    said: list[Any] = []
    normal = _Normal(namespace, paced=sequence in APPLIES)
    watches: list[asyncio.Task[Response]] = []
    for number, step in enumerate(steps):
        if step.method == "WAIT":
            await asyncio.sleep(float(step.path) if real else 0)
            said.append(None)
            answers.append({})
            continue
        if step.method == "COMPACTED":
            if compact is not None:
                await compact()
            said.append(None)
            answers.append({})
            continue
        if step.method == "ASKED" and hooks is not None:
            said.append(hooks.taken())
            answers.append({"body": normal(said[-1])})
            continue
        if normal.paced:
            await pass_a_second()
        asked = _request(_filled(step, said), namespace, hooks)
        if "watch" in step.query:
            if not watches:
                watches = [
                    asyncio.ensure_future(transport.request(_request(_filled(each, said), namespace)))
                    for each in itertools.takewhile(lambda each: "watch" in each.query, steps[number:])
                ]
            response = await watches.pop(0)
        else:
            response = await transport.request(asked)
        said.append(_decoded(response.body))
        answers.append(_answer(response, said[-1], normal))
        if step.path == CRDS and response.status == 201 and not step.query.get("dryRun"):
            await _until_served(
                transport, f"/apis/{step.body['spec']['group']}/v1".replace("{ns}", namespace)
            )
    await transport.request(_request(Step("DELETE", f"/api/v1/namespaces/{namespace}"), namespace))
    return answers


def _answer(response: Response, body: Any, normal: _Normal) -> Object:
    out = {"code": response.status, "body": without_order(normal(body))}
    kind = response.headers.get("content-type", "").replace(" ", "")
    if kind != "application/json" and response.body:
        out["type"] = kind
    for name in ("allow", "retry-after"):
        if name in response.headers:
            out[name] = response.headers[name]
    if told := [text for text in response.warnings if "this cluster" not in text]:
        out["warnings"] = [normal.text(text) for text in told]  # what it says of itself has no counterpart
    return out


def without_order(body: Any) -> Any:
    """Return an answer with the causes about a definition in an order of their own.

    What is wrong with properties of a schema comes in any order: Go goes through a map.
    """
    details = section(body, "details") if isinstance(body, dict) and body.get("kind") == "Status" else {}
    if details.get("kind") != "CustomResourceDefinition" or len(details.get("causes") or ()) < 2:
        return body
    listed = sorted(details["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
    return {**body, "message": "<its causes>", "details": {**details, "causes": listed}}


def _filled(step: Step, said: list[Any]) -> Step:
    """Return a request with what earlier answers gave in its query and body."""

    def value(match: re.Match[str]) -> str:
        metadata = said[int(match[2])]["metadata"]
        return str(metadata[{"rv": "resourceVersion"}.get(match[1], match[1])])

    def filled(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: filled(item) for key, item in part.items()}
        if isinstance(part, list):
            return [filled(item) for item in part]
        return _FROM_BEFORE.sub(value, part) if isinstance(part, str) else part

    return msgspec.structs.replace(step, query=filled(step.query), body=filled(step.body))


async def _until_served(transport: Transport, group: str) -> None:
    """Wait until the new kind can be asked for; a real server takes a moment."""
    async with asyncio.timeout(_SERVED_SECONDS):
        while (await transport.request(Request("GET", group))).status != 200:
            await asyncio.sleep(0.2)


def _request(step: Step, namespace: str, hooks: Asked | None = None) -> Request:
    written = step.body if isinstance(step.body, str) else json.dumps(step.body)
    if hooks is not None:
        written = hooks.fill(written)
    body = None if step.body is None else written.replace("{ns}", namespace).encode()
    manager = {} if step.method in ("GET", "DELETE") else {"fieldManager": "recorder"}
    if step.content_type == APPLY:
        manager = {}  # sequences name whose it is, or leave it out to see what is said
    return Request(
        step.method,
        step.path.replace("{ns}", namespace),
        query=list((manager | step.query).items()),
        body=body,
        content_type=None if body is None else step.content_type,
        accept=step.accept,
        headers=[(name, value.replace("{ns}", namespace)) for name, value in step.headers],
    )


def _decoded(body: bytes) -> Any:
    text = body.decode(errors="replace")
    for read in (lambda: json.loads(text), lambda: [json.loads(line) for line in text.splitlines()]):
        try:
            return read()
        except ValueError:
            continue
    return text


class _Normal:
    """Answers of one sequence without what differs from run to run."""

    def __init__(self, namespace: str, *, paced: bool) -> None:
        self.namespace = namespace
        self.paced = paced

    def __call__(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("kind") in _BY_NAME:
                value = {**value, **_by_name(value)}
            if {"name", "type", "format", "priority"} <= value.keys():  # a column
                value = {**value, "description": value["description"] or "its own"}
            return {self.text(name): self(part, name) for name, part in sorted(value.items())}
        if isinstance(value, list):
            if key == "managedFields":
                value = self.entries(value)
            if key == "causes":
                value = sorted(value, key=_of_conflicts)  # which come in any order
            if key == "cells":
                value = ["<age>" if _AGE.fullmatch(str(each)) else each for each in value]
            return [self(each) for each in value if _is_ours(each)]
        if value in (None, "", "None"):
            return value
        if key == "description" and isinstance(value, str) and not value.startswith(_COLUMN):
            return "<prose>"  # Kubernetes' own is not copied
        if key in _TIMES:
            return value if value.startswith("<") else "<time>"
        if key in _VARYING:
            return _VARYING[key]
        return self.text(value) if isinstance(value, str) else value

    def entries(self, entries: list[Object]) -> list[Object]:
        """Return managedFields with the rank of each time; in an order of their own where all is of one second."""
        if not self.paced:
            return sorted(entries, key=_who)
        times = sorted({entry["time"] for entry in entries if "time" in entry})
        ranks = {time: f"<time {rank}>" for rank, time in enumerate(times)}
        return [{**entry, "time": ranks[entry["time"]]} if "time" in entry else entry for entry in entries]

    def text(self, text: str) -> str:
        text = text.replace(self.namespace, "{ns}")
        for pattern, stand_in in _RANDOM:
            text = pattern.sub(stand_in, text)
        return text


def _by_name(value: Object) -> Object:
    """Return the lists of discovery as objects, so that what is missing is told by name."""
    match value["kind"]:
        case "APIResourceList":
            return {"resources": {each["name"]: each for each in value["resources"]}}
        case "APIGroupList":
            return {"groups": {each["name"]: each for each in value["groups"]}}
        case _:
            return {
                "items": {
                    f"{group['metadata'].get('name', '')}/{version['version']}": {
                        each["resource"]: each for each in version["resources"]
                    }
                    for group in value["items"]
                    for version in group["versions"]
                }
            }


def _who(entry: Object) -> list[str]:
    return [entry.get(key, "") for key in ("operation", "manager", "apiVersion", "subresource")]


def _of_conflicts(cause: Object) -> str:
    return str(cause.get("message")) if cause.get("reason") == "FieldManagerConflict" else ""


def _is_ours(item: Any) -> bool:
    """Return whether an item is of Kubernetes; OpenShift's builds add a ConfigMap to what tokens are projected with."""
    return not (
        isinstance(item, dict) and section(item, "configMap").get("name") == "openshift-service-ca.crt"
    )
