"""Plays a sequence against any API server, and takes out of the answers what differs from run to run."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from tests.conformance.recorded.sequences import CRDS, Step
from trainshed.client.transport import Transport
from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.types import APPLY
from trainshed.kube.wire.request import Request

_SERVED_SECONDS = 30.0
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
    "storageVersionHash": "<hash>",
}
_RANDOM = [
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<random>"),
    (re.compile(r"\bg-[a-z0-9]{5}\b"), "g-<random>"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x<address>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
]


def namespace_of(sequence: str) -> str:
    """Return the namespace in which a sequence is played."""
    return "recorded-" + sequence.replace(" ", "-")


async def play(transport: Transport, sequence: str, steps: list[Step]) -> list[Object]:
    """Return the normalised answers, `{code, body}` each. The namespace is made and deleted."""
    namespace = namespace_of(sequence)
    for path, name in (
        ("/api/v1/namespaces", namespace),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", "default"),
    ):
        made = await transport.request(_request(Step("POST", path, {"metadata": {"name": name}}), namespace))
        if made.status not in (201, 409):
            raise RuntimeError(f"POST {path}: {made.status} {made.body!r}")
    answers = []
    for step in steps:
        response = await transport.request(_request(step, namespace))
        answers.append({"code": response.status, "body": _normal(_decoded(response.body), namespace)})
        if step.path == CRDS and response.status == 201 and not step.query.get("dryRun"):
            await _until_served(
                transport, f"/apis/{step.body['spec']['group']}/v1".replace("{ns}", namespace)
            )
    await transport.request(_request(Step("DELETE", f"/api/v1/namespaces/{namespace}"), namespace))
    return answers


async def _until_served(transport: Transport, group: str) -> None:
    """Wait until the new kind can be asked for; a real server takes a moment."""
    async with asyncio.timeout(_SERVED_SECONDS):
        while (await transport.request(Request("GET", group))).status != 200:
            await asyncio.sleep(0.2)


def _request(step: Step, namespace: str) -> Request:
    body = None if step.body is None else json.dumps(step.body).replace("{ns}", namespace).encode()
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
    )


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _normal(value: Any, namespace: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {
            _fixed(name, namespace): _normal(part, namespace, name) for name, part in sorted(value.items())
        }
    if isinstance(value, list):
        return [
            "<address>" if key == "clusterIPs" and each != "None" else _normal(each, namespace)
            for each in value
        ]
    if value in (None, "", "None"):
        return value
    if key in _TIMES:
        return "<time>"
    if key in _VARYING:
        return _VARYING[key]
    return _fixed(value, namespace) if isinstance(value, str) else value


def _fixed(text: str, namespace: str) -> str:
    text = text.replace(namespace, "{ns}")
    for pattern, stand_in in _RANDOM:
        text = pattern.sub(stand_in, text)
    return text
