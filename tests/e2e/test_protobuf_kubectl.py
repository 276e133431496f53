"""kubectl 1.33 posts protobuf where 1.27 posts JSON: both bodies of a command must decode to the same object."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.conftest import KUBECTLS
from tests.fakes.stream_api import running
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import discovery, openapi
from trainshed.kube.served.registry import Registry
from trainshed.kube.wire import negotiate, protobuf
from trainshed.kube.wire.asgi import Receive, Scope, Send

DEADLINE = 30.0
COMMANDS = [
    "create deployment d --image=a --image=b --replicas=0 --port=80",
    "create job j --image=a -- sh -c true",
    "create cronjob c --image=a --schedule=@hourly --restart=Never",
    "create configmap c --from-literal=a=b --from-literal=empty=",
    "create secret generic s --from-literal=a=b",
    "create namespace n",
    "create serviceaccount s",
    "create role r --verb=get,list --resource=pods --resource-name=x",
    "create clusterrole r --verb=get --non-resource-url=/healthz",
    "create rolebinding r --role=x --serviceaccount=n:s --user=u --group=g",
    "create clusterrolebinding r --clusterrole=x --user=u",
    "create quota q --hard=cpu=1,memory=2Gi --scopes=NotTerminating",
    "create poddisruptionbudget p --selector=a=b --min-available=50%",
    "create poddisruptionbudget p --selector=a=b --max-unavailable=1",
    "create priorityclass p --value=0 --description=none",
    "create service clusterip s --tcp=80:8080 --clusterip=None",
    "create service nodeport s --tcp=80:http --node-port=30080",
    "create service externalname s --external-name=a.b",
    "create ingress i --rule=a.b/x*=svc:80,tls=t --class=nginx --annotation=k=v",
    "create token default --duration=10m --audience=a",
    "auth can-i list pods",
    "auth can-i get /healthz",
]
pytestmark = pytest.mark.skipif(
    not {"1.27", "1.33"} <= KUBECTLS.keys(),
    reason="needs kubectl.1.27 and kubectl.1.33 in PATH or beside kubectl",
)


class Recorder:
    """Answers discovery and schemas, keeps what is posted and returns it."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, Object]] = []
        self._registry = Registry()
        self._openapi = openapi.OpenAPI(self._registry, "v1.33.2")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        status, content_type, answer = await self._answer(scope["path"].rstrip("/"), scope, receive, headers)
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        head = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, path: str, scope: Scope, receive: Receive, headers: dict[str, str]
    ) -> tuple[int, str, Any]:
        if path in ("/api", "/apis"):
            form = negotiate.for_discovery(headers.get("accept"))
            return (
                200,
                form.content_type,
                discovery.aggregated(self._registry, core=path == "/api", version=form.version),
            )
        if path == "/openapi/v2":
            return 200, negotiate.OPENAPI_V2_PROTOBUF, self._openapi.whole(protobuf=True)
        if path == "/openapi/v3":
            return 200, "application/json", self._openapi.root()
        if path.startswith("/openapi/v3/"):
            group, version = path.split("/")[-2:]
            return 200, "application/json", self._openapi.document("" if group == "api" else group, version)
        if scope["method"] == "GET":
            document = discovery.api_resource_list(self._registry, "", "v1")
            return 200, "application/json", document
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message["body"], message.get("more_body", False)
        form_of = negotiate.body_format(headers.get("content-type"))
        obj = protobuf.decode(data) if form_of == "protobuf" else msgspec.json.decode(data)
        self.posted.append((form_of, obj))
        return 201, "application/json", obj


@pytest.fixture
async def recorder() -> AsyncIterator[tuple[Recorder, str]]:
    recorder = Recorder()
    async with running(recorder, deadline=DEADLINE) as url:
        yield recorder, url


def _without_absent(value: Any) -> Any:
    """Drop what a Go client writes for "absent" in JSON: null, and empty objects of embedded structs."""
    if isinstance(value, dict):
        kept = {key: _without_absent(child) for key, child in value.items()}
        return {key: child for key, child in kept.items() if child is not None and child != {}}
    if isinstance(value, list):
        return [_without_absent(child) for child in value]
    return value


async def _run(kubectl: str, url: str, home: Path, command: str) -> None:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        kubectl, "--server", url, *command.split(), env=environment, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE):
        await process.communicate()


@pytest.mark.parametrize("command", COMMANDS)
async def test_both_forms_decode_to_the_same_object(
    recorder: tuple[Recorder, str], tmp_path: Path, command: str
) -> None:
    kept, url = recorder
    for minor in ("1.27", "1.33"):
        await _run(KUBECTLS[minor], url, tmp_path / minor, command)
    (old_form, old), (new_form, new) = kept.posted
    assert (old_form, new_form) == ("json", "protobuf")
    old.get(
        "status", {}
    ).clear()  # counters of PodDisruptionBudget and answers of reviews, which servers ignore
    assert _without_absent(new) == _without_absent(old)
