"""The operator as a process: connects over TLS, serves its endpoints, survives the API server, stops cleanly."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import uvicorn
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.test_transports import make_certificate
from tests.fakes.api import FakeApi
from tests.fakes.training import conditions, make_job
from tests.processes import resident_bytes
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.cluster.apiserver.access import ADMIN, Authenticator, RbacAuthorizer
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.cluster.store import Store
from trainshed.kube.meta.resources import CRDS, NAMESPACES, PODS, SERVICEACCOUNTS
from trainshed.operator import objects
from trainshed.operator.certificates import CONFIGURATION_NAME
from trainshed.operator.flags import parse
from trainshed.operator.webhook import Webhook

DEADLINE = 30.0


def free_port() -> int:
    """Return a port that no outgoing connection takes while the server is away: none of the ephemeral ones."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


@asynccontextmanager
async def serving(api: ApiServer, port: int, files: tuple[Path, Path]) -> AsyncIterator[None]:
    """Serve `api` on a port; leaving breaks every connection, as a killed process would."""
    config = uvicorn.Config(
        api, port=port, log_level="critical", lifespan="off", ssl_certfile=files[0], ssl_keyfile=files[1]
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    await until("the server listens", lambda: server.started)
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        end = asyncio.get_running_loop().time() + DEADLINE
        # Since Python 3.12 a server waits for its connections, those included that come until it has closed.
        while not task.done():
            assert asyncio.get_running_loop().time() < end, f"not within {DEADLINE} s: the server ended"
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0.01)
        await task


async def until(what: str, predicate: Any) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while True:
        found = predicate()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert loop.time() < end, f"not within {DEADLINE} s: {what}"
        await asyncio.sleep(0.05)


async def ask(port: int, path: str) -> str:
    """GET over plain HTTP; empty when nothing listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        text = (await asyncio.wait_for(reader.read(), DEADLINE)).decode()
        writer.close()
        return text
    except OSError:
        return ""


async def test_the_process_from_start_to_stop(tmp_path: Path) -> None:
    """Start without an API server, get one, lose it with connections open, get it back, SIGTERM."""
    files = make_certificate(tmp_path)
    store = await Store.open(tmp_path / "store.db")
    issuer = TokenIssuer(ec.generate_private_key(ec.SECP256R1()))
    api = ApiServer(
        store, authenticator=Authenticator(store, issuer, {"secret": ADMIN}), authorizer=RbacAuthorizer(store)
    )
    admin = Client(AsgiTransport(api, "admin", ["system:masters"]))
    await admin.create(NAMESPACES, {"metadata": {"name": "ns"}})
    await admin.create(SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": "ns"}})
    for crd in objects.crds():
        await admin.create(CRDS, crd)

    port, metrics, health = free_port(), free_port(), free_port()
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": base64.b64encode(files[0].read_bytes()).decode(),
    }
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainshed.operator", "--kubeconfig", str(kubeconfig)),
        *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
        *("--health-probe-bind-address", f"127.0.0.1:{health}"),
        stderr=asyncio.subprocess.PIPE,
    )

    async def state(name: str) -> list[tuple[str, str]]:
        return conditions(await admin.get(PYTORCHJOB.resource, name, "ns"))

    async def has_created(name: str) -> bool:
        return ("Created", "True") in await state(name)

    def job(name: str) -> Any:
        found = make_job()
        found["metadata"]["name"] = name
        return found

    try:

        async def alive() -> bool:
            return "200 OK" in await ask(health, "/healthz")

        async def ready() -> bool:
            return "200 OK" in await ask(health, "/readyz")

        await until("alive without an API server", alive)
        assert "caches are not synced" in await ask(health, "/readyz")
        async with serving(api, port, files):
            await until("ready", ready)
            await admin.create(PYTORCHJOB.resource, job("first"))
            await until("the first job is seen", lambda: has_created("first"))
        await admin.create(PYTORCHJOB.resource, job("second"))  # while the operator is cut off
        async with serving(api, port, files):
            await until("the second job is seen", lambda: has_created("second"))
            assert len((await admin.list(PODS, "ns")).items) == 6
            text = await ask(metrics, "/metrics")
            counter = 'training_operator_jobs_created_total{framework="pytorch",job_namespace="ns"} 2.0'
            assert counter in text
            host = f"127.0.0.1:{port}"
            assert f'rest_client_requests_total{{code="201",host="{host}",method="POST"}}' in text
            resident = resident_bytes(process.pid)
            assert resident < 64 * 2**20, f"{resident} bytes: what has been imported?"
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), DEADLINE) == 0
        assert process.stderr is not None
        lines = [json.loads(line) for line in (await process.stderr.read()).splitlines()]
        assert [line["msg"] for line in lines][-1] == "operator stopped"
        assert all(line["level"] in ("info", "warning") for line in lines), lines
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        await store.close()


async def test_webhook_serves_reviews_and_announces_its_authority() -> None:
    """The certificate is made once: a second replica uses the first one's."""
    api = FakeApi()
    secret = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert"
    configuration = (
        f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{CONFIGURATION_NAME}"
    )
    await api.put(secret)
    await api.put(configuration, webhooks=objects.webhook_configuration()["webhooks"])
    port = free_port()
    flags = parse(["--enable-webhook", f"--webhook-server-port={port}"], {})
    async with Webhook(Client(api), flags) as webhook:
        await until("the webhook is ready", lambda: webhook.ready)
        bundle = api.objects[configuration]["webhooks"][0]["clientConfig"]["caBundle"]
        assert base64.b64decode(api.objects[secret]["data"]["ca.crt"]) == base64.b64decode(bundle)
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        body = {"request": {"uid": "1", "operation": "CREATE", "object": {"metadata": {"name": "UPPER"}}}}
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{port}{PYTORCHJOB.webhook_path}"
            host = "training-operator.kubeflow.svc"
            async with session.post(
                url, data=msgspec.json.encode(body), ssl=context, server_hostname=host
            ) as answer:
                review = await answer.json()
            async with session.post(url, data=b"{}", ssl=context, server_hostname=host) as answer:
                assert answer.status == 400
        assert (review["response"]["uid"], review["response"]["allowed"]) == ("1", False)
    before = api.objects[secret]
    other = parse(["--enable-webhook", f"--webhook-server-port={free_port()}"], {})
    async with Webhook(Client(api), other) as webhook:
        await until("the second replica is ready", lambda: webhook.ready)
    assert api.objects[secret] == before


async def test_webhook_waits_for_its_secret() -> None:
    api = FakeApi()
    flags = parse(["--enable-webhook", f"--webhook-server-port={free_port()}"], {})
    async with Webhook(Client(api), flags) as webhook:
        await until("it has looked for the Secret", lambda: api.calls)
        assert not webhook.ready


@pytest.mark.parametrize("arguments", [["--kubeconfig", "/nonexistent"], ["--enable-scheme", "nonsense"]])
async def test_a_start_that_cannot_succeed_ends_with_a_reason(arguments: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "trainshed.operator", *arguments), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode in (1, 2)
    assert arguments[1].encode() in errors
