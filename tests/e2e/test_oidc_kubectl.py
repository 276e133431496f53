"""kubectl with tokens of an OpenID Connect provider: by hand, and from a credential plug-in."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from tests.cluster.api_world import open_world
from tests.e2e.cluster_fixture import kubectl_path
from tests.fakes.https import serve_https
from tests.fakes.oidc import Provider
from tests.process.raw_server import listening
from trainshed.cluster.apiserver.oidc import configuration
from trainshed.cluster.apiserver.oidc.providers import Providers
from trainshed.cluster.pki import ensure_pki

_SECONDS = 60.0


async def test_kubectl_shows_who_a_token_is(tmp_path: Path) -> None:
    issuer, pki = Provider(), ensure_pki(tmp_path / "pki")
    async with serve_https(tmp_path, issuer.handle, ["localhost"]) as at, open_world(tmp_path) as world:
        issuer.url = f"https://127.0.0.1:{at.port}"
        authority = {
            "issuer": {"url": issuer.url, "audiences": ["cluster"], "certificateAuthority": at.ca},
            "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}},
        }
        document = {
            "apiVersion": configuration.API_VERSIONS[0],
            "kind": configuration.KIND,
            "jwt": [authority],
        }
        world.api.core.authenticator.providers = Providers(configuration.read(document), time.monotonic)
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": issuer.token(time.time())},
        }
        (tmp_path / "credential.json").write_text(json.dumps(credential))
        plugin = {
            "apiVersion": credential["apiVersion"],
            "command": "cat",
            "args": [str(tmp_path / "credential.json")],
            "interactiveMode": "Never",
        }
        async with listening(world.api, pki) as port:
            cluster = {
                "server": f"https://127.0.0.1:{port}",
                "certificate-authority": str(pki.ca_certificate),
            }
            config: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "plugin", "user": {"exec": plugin}}, {"name": "none", "user": {}}],
                "contexts": [
                    {"name": name, "context": {"cluster": "c", "user": name}} for name in ("plugin", "none")
                ],
            }
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(json.dumps(config))
            whoami = (
                "--kubeconfig",
                str(kubeconfig),
                "auth",
                "whoami",
                "-o",
                "jsonpath={.status.userInfo.username}",
            )
            by_plugin = await _kubectl("--context", "plugin", *whoami)
            by_hand = await _kubectl("--context", "none", "--token", issuer.token(time.time()), *whoami)
            expired = await _kubectl(
                "--context", "none", "--token", issuer.token(time.time(), exp=1), *whoami
            )
    assert (by_plugin, by_hand) == ((0, "oidc:anna"), (0, "oidc:anna"))
    assert expired[0] == 1 and "You must be logged in to the server" in expired[1]


async def _kubectl(*arguments: str) -> tuple[int | None, str]:
    started = await asyncio.create_subprocess_exec(
        kubectl_path(), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(_SECONDS):
        said, _ = await started.communicate()
    return started.returncode, said.decode()
