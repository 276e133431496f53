"""Client certificates over sockets, and the requests by which clients get them."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.api_world import ADMIN_TOKEN, MERGE, START, World, open_world
from tests.process.raw_server import listening
from tests.unit.test_signers import made_request
from trainshed import certificates
from trainshed.client.asgi import AsgiTransport
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.controllers.certificaterequests import CertificateController
from trainshed.cluster.pki import Pki, ensure_pki
from trainshed.kube.meta.objects import Object

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return ensure_pki(tmp_path / "pki")


@pytest.fixture
async def world(tmp_path: Path, pki: Pki) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        informers = SharedInformers(opened.client)
        signer = CertificateController(
            opened.client, informers, lambda: pki.authority, now=lambda: opened.now
        )
        tasks = [asyncio.create_task(part.run()) for part in (informers, signer)]
        yield opened
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def csr(name: str, request: bytes, **spec: Any) -> Object:
    encoded = base64.b64encode(request).decode()
    wanted = {"request": encoded, "signerName": CLIENT, "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": wanted}


async def until(world: World, name: str, field: str) -> Object:
    """Return the status of a request once it has this field, or a condition of this type."""
    async with asyncio.timeout(20):
        while True:
            status = (await world.ok("GET", f"{REQUESTS}/{name}"))["status"]
            types = [one["type"] for one in status.get("conditions") or ()]
            if field in status or field in types:
                return dict(status)
            await asyncio.sleep(0.02)


async def approve(world: World, name: str) -> Object:
    body = {"status": {"conditions": [APPROVED]}}
    return dict(await world.ok("PATCH", f"{REQUESTS}/{name}/approval", body, content_type=MERGE))


async def test_from_a_request_to_a_user(world: World, pki: Pki) -> None:
    made = await world.ok("POST", REQUESTS, csr("anna", made_request()))
    assert (made["spec"]["username"], made["spec"]["groups"]) == (
        "tester",
        ["system:masters", "system:authenticated"],
    )
    approved = (await approve(world, "anna"))["status"]["conditions"][0]
    assert approved["lastUpdateTime"] == approved["lastTransitionTime"]
    status = await until(world, "anna", "certificate")
    certificate = base64.b64decode(status["certificate"]).decode()
    assert pki.authority.signs(certificate)
    again = await world.ok("PATCH", f"{REQUESTS}/anna", {"spec": {"username": "root"}}, content_type=MERGE)
    assert again["spec"]["username"] == "tester"


def client_context(pki: Pki, home: Path, pair: certificates.Pair) -> ssl.SSLContext:
    (home / "client.crt").write_text(pair.certificate)
    (home / "client.key").write_text(pair.key)
    context = ssl.create_default_context(cafile=pki.ca_certificate)
    context.load_cert_chain(home / "client.crt", home / "client.key")
    return context


async def whoami(session: aiohttp.ClientSession, **headers: str) -> Object:
    async with session.post(REVIEW, json={}, headers=headers) as answer:
        assert answer.status == 201, await answer.text()
        return dict((await answer.json())["status"]["userInfo"])


async def test_a_certificate_shows_user_and_groups(world: World, pki: Pki, tmp_path: Path) -> None:
    pair = certificates.issue_client(pki.authority, "anna", ("devs", "ops"), datetime.now(UTC))
    context = client_context(pki, tmp_path, pair)
    world.now = datetime.now(UTC).timestamp()
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        listening(world.api, pki) as port,
        aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session,
    ):
        user = await whoami(session)
        assert (user["username"], user["groups"]) == ("anna", ["devs", "ops", "system:authenticated"])
        assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
        # A certificate comes before a token.
        assert (await whoami(session, authorization=f"Bearer {ADMIN_TOKEN}"))["username"] == "anna"
        async with session.get("/api/v1/namespaces/default/pods") as answer:
            assert answer.status == 403 and 'User "anna" cannot list' in (await answer.json())["message"]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect("/api/v1/namespaces/default/pods?watch=1")
        assert refused.value.status == 403
        # The connection outlives the certificate.
        world.now = certificates.ends(pair.certificate).timestamp() + 1
        async with session.post(REVIEW, json={}) as answer:
            assert answer.status == 401


async def test_one_of_another_authority_or_for_servers_does_not_connect(
    world: World, pki: Pki, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    stranger = certificates.issue_client(
        certificates.make_authority("x", now), "root", ("system:masters",), now
    )
    server = certificates.issue(pki.authority, "anna", ["a"], now)
    async with listening(world.api, pki) as port:
        for pair in (stranger, server):
            connector = aiohttp.TCPConnector(ssl=client_context(pki, tmp_path, pair))
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
                with pytest.raises(aiohttp.ClientError):
                    await whoami(session)


async def test_approving_and_signing_take_rights_on_the_signer(world: World) -> None:
    await world.ok("POST", REQUESTS, csr("r", made_request()))
    rules = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["get", "patch", "update"]},
    ]
    roles = "/apis/rbac.authorization.k8s.io/v1"
    await world.ok("POST", f"{roles}/clusterroles", {"metadata": {"name": "c"}, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carl"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "c"}
    binding = {"metadata": {"name": "c"}, "roleRef": reference, "subjects": [subject]}
    await world.ok("POST", f"{roles}/clusterrolebindings", binding)
    body = {"status": {"conditions": [APPROVED]}}

    async def as_carl(part: str, change: Object) -> Any:
        own = world.transport
        world.transport = AsgiTransport(world.api, "carl", [], user_agent="carl/1")
        try:
            return await world.raw("PATCH", f"{REQUESTS}/r/{part}", change, content_type=MERGE)
        finally:
            await world.transport.close()
            world.transport = own

    refused = await as_carl("approval", body)
    assert refused.status == 403
    assert f'user not permitted to approve requests with signerName \\"{CLIENT}\\"'.encode() in refused.body
    refused = await as_carl("status", {"status": {"certificate": "eA=="}})
    assert refused.status == 403 and b"user not permitted to sign" in refused.body
    granted = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"],
        "verbs": ["approve"],
    }
    await world.ok("PATCH", f"{roles}/clusterroles/c", {"rules": [*rules, granted]}, content_type=MERGE)
    assert (await as_carl("approval", body)).status == 200


async def test_what_a_signer_does_not_sign_fails_and_says_why(world: World) -> None:
    await world.ok("POST", REQUESTS, csr("r", made_request(), usages=["server auth"]))
    await approve(world, "r")
    status = await until(world, "r", "Failed")
    failed = next(one for one in status["conditions"] if one["type"] == "Failed")
    assert (failed["reason"], failed["message"]) == (
        "SignerValidationFailure",
        "invalid usage for client certificate: server auth",
    )


async def test_nobody_becomes_an_administrator_by_a_request(world: World) -> None:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:masters")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    body = csr("m", signed.public_bytes(serialization.Encoding.PEM))
    refused = await world.refused(403, "POST", REQUESTS, body)
    assert "signer with system:masters group is not allowed" in refused["message"]
    refused = await world.refused(422, "POST", REQUESTS, csr("x", b"no request"))
    assert refused["details"]["causes"][0]["field"] == "spec.request"


async def test_old_requests_are_cleaned_up(world: World) -> None:
    world.now = START
    await world.ok("POST", REQUESTS, csr("denied", made_request()))
    denied = {**APPROVED, "type": "Denied"}
    world.now += 3601
    body = {"status": {"conditions": [{**denied, "lastUpdateTime": "2027-01-15T08:00:00Z"}]}}
    await world.ok("PATCH", f"{REQUESTS}/denied/approval", body, content_type=MERGE)
    async with asyncio.timeout(20):
        while (await world.raw("GET", f"{REQUESTS}/denied")).status != 404:
            await asyncio.sleep(0.02)
