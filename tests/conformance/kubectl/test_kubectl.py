"""kubectl prints of the embedded server what it prints of a real one; what differs is known line by line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cluster.api_world import ADMIN_TOKEN, open_world
from tests.conformance.kubectl.play import FOLDER, NAMESPACE, play
from tests.e2e.conftest import KUBECTLS
from tests.fakes.stream_api import running
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.asgi import Application, Receive, Scope, Send

KNOWN = FOLDER / "known_differences.json"
"""By reason and kubectl, the commands whose output still differs, with the lines that are printed here instead. What
is listed and the same again fails, too."""
_STOP_SECONDS = 30.0
_NEWER = {"1.37": "1.33"}
"""Played where KUBECTLS has them; what differs of them is what differs of the older one."""


def difference(expected: Object, found: Object) -> list[str]:
    """Return what was printed and what is, line by line, with the exit codes; empty when all is the same."""
    out = [] if expected["code"] == found["code"] else [f"exit code {expected['code']}, here {found['code']}"]
    for stream in ("out", "err"):
        out += [f"-{line}" for line in expected[stream] if line not in found[stream]]
        out += [f"+{line}" for line in found[stream] if line not in expected[stream]]
        if not out and expected[stream] != found[stream]:
            out.append(f"{stream}: the same lines in another order")
    return out


def _as_admin(app: Application) -> Application:
    """Return an application whose callers all are the administrator: without TLS kubectl sends no token."""
    token = (b"authorization", f"Bearer {ADMIN_TOKEN}".encode())

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "headers": [*scope["headers"], token]}, receive, send)

    return serve


@pytest.mark.timeout(240)
@pytest.mark.parametrize("minor", ["1.27", "1.33", *(minor for minor in _NEWER if minor in KUBECTLS)])
async def test_as_recorded(tmp_path: Path, minor: str) -> None:
    if minor not in KUBECTLS:
        pytest.skip(f"no executable kubectl.{minor} in PATH, beside kubectl or in KUBECTLS")
    recorded: dict[str, Object] = json.loads((FOLDER / f"{minor}.json").read_text())
    known: dict[str, list[str]] = {}
    for rows in json.loads(KNOWN.read_text()).values():
        known |= rows.get(_NEWER.get(minor, minor), {})
    async with open_world(tmp_path) as world, running(_as_admin(world.api), deadline=_STOP_SECONDS) as url:
        world.now = time.time()  # ages are of the clock that kubectl has
        metadata = {"metadata": {"name": NAMESPACE}}
        await world.ok("POST", "/api/v1/namespaces", metadata)
        account = {"metadata": {"name": "default"}}
        await world.ok("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        said = await play(KUBECTLS[minor], tmp_path, ["--server", url])
    assert recorded.keys() == said.keys(), "recorded with other commands: record again"
    found = {command: lines for command in said if (lines := difference(recorded[command], said[command]))}
    assert found == known
