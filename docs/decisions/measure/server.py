"""The API server's application behind three ASGI servers, for 0002: `python docs/decisions/measure/server.py`.

Each server is a process of its own with TLS and one worker; the client (aiohttp, verified TLS, connections kept
alive) runs here. Rounds alternate between the servers. hypercorn and granian are measured when they are installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from figures import median, memory_mib, print_table, print_versions

from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.pki import Pki, ensure_pki
from trainshed.cluster.store import Store
from trainshed.kube.meta.resources import PODS, SERVICEACCOUNTS

ROUNDS = 5
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "annotations": {"text": "x" * 2500}},
    "spec": {"containers": [{"name": "c", "image": "busybox", "command": ["sleep", "9"]}]},
}
_api: ApiServer | None = None


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The real application over a store in $MEASURE_HOME, opened when the server starts."""
    global _api
    if scope["type"] != "lifespan":
        assert _api is not None
        await _api(scope, receive, send)
        return
    await receive()
    home = Path(os.environ["MEASURE_HOME"])
    store = await Store.open(home / "store.db")
    _api = ApiServer.secured(store, ensure_pki(home / "pki"))
    client = Client(AsgiTransport(_api, "system:measure", ["system:masters"]))
    await bootstrap(client)
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
    for number in range(200):
        await client.create(PODS, {**POD, "metadata": {**POD["metadata"], "name": f"p{number}"}})  # type: ignore[dict-item]
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await store.close()
    await send({"type": "lifespan.shutdown.complete"})


def uvicorn_main(loop: str, http: str, port: int) -> None:
    """Run uvicorn as the control plane does, but for the loop and parser named."""
    import uvicorn

    from trainshed.cluster.apiserver.streams import server_options

    pki = Pki(Path(os.environ["MEASURE_HOME"]) / "pki")
    options = {**server_options(), "http": "h11"} if http == "h11" else server_options()
    uvicorn.run(
        app, host="127.0.0.1", port=port, loop=loop, lifespan="on", log_level="error", access_log=False,
        ssl_certfile=pki.server_certificate, ssl_keyfile=pki.server_key, **options,
    )  # fmt: skip


def commands(pki: Pki, port: int) -> dict[str, list[str]]:
    """Return the command line of each server."""
    python = [sys.executable]
    tls = [str(pki.server_certificate), str(pki.server_key)]
    out = {
        "uvicorn, uvloop, httptools": [*python, __file__, "uvloop", "httptools", str(port)],
        "uvicorn, asyncio, httptools": [*python, __file__, "asyncio", "httptools", str(port)],
        "uvicorn, uvloop, h11": [*python, __file__, "uvloop", "h11", str(port)],
    }
    if importlib.util.find_spec("hypercorn"):
        out["hypercorn, uvloop"] = [
            *python, "-m", "hypercorn", "server:app", "-k", "uvloop", "-w", "0", "--bind", f"127.0.0.1:{port}",
            "--certfile", tls[0], "--keyfile", tls[1], "--log-level", "error",
        ]  # fmt: skip
    if importlib.util.find_spec("granian"):
        out["granian, uvloop"] = [
            *python, "-m", "granian", "server:app", "--interface", "asgi", "--loop", "uvloop", "--host", "127.0.0.1",
            "--port", str(port), "--ssl-certificate", tls[0], "--ssl-keyfile", tls[1], "--log-level", "error",
        ]  # fmt: skip
    return out


async def load(pki: Pki, port: int, pid: int) -> dict[str, float]:
    """Return what one round took, each per request: CPU of the server in µs, and time in µs."""
    context = ssl.create_default_context(cafile=str(pki.ca_certificate))
    headers = {"Authorization": f"Bearer {pki.admin_token}"}
    base = f"https://127.0.0.1:{port}/api/v1/namespaces/default/pods"
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def get(count: int) -> None:
            for _ in range(count):
                async with session.get(f"{base}/p7") as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()

        async def patch(count: int, name: str) -> None:
            kind = {"Content-Type": "application/merge-patch+json"}
            for number in range(count):
                body = b'{"metadata":{"labels":{"n":"%d"}}}' % number
                async with session.patch(f"{base}/{name}", data=body, headers=kind) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()

        await get(50)
        out = {}
        for name, count, work in (
            ("get", 1000, [get(1000)]),
            ("get x8", 1600, [get(200) for _ in range(8)]),
            ("patch x8", 400, [patch(50, f"p{n}") for n in range(8)]),
        ):
            cpu = tree_cpu(pid)
            started = time.perf_counter()
            await asyncio.gather(*work)
            out[f"{name} time"] = (time.perf_counter() - started) / count * 1e6
            out[f"{name} cpu"] = (tree_cpu(pid) - cpu) / count * 1e6
    return out


def tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        total += tree_cpu(int(child))
    return total


def tree_memory(pid: int) -> float:
    """Return the proportional memory of a process and its children in MiB."""
    total = memory_mib(pid, "Pss")
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        total += tree_memory(int(child))
    return total


def main() -> None:
    results: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            pki = ensure_pki(Path(name) / "pki")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            for server, command in commands(pki, port).items():
                found = results.setdefault(server, {})
                for key, value in one(command, Path(name), pki, port).items():
                    found.setdefault(key, []).append(value)
    print_versions(
        "uvicorn", "uvloop", "httptools", *filter(importlib.util.find_spec, ("hypercorn", "granian"))
    )
    rows = []
    for server, found in results.items():
        m = {key: median(values) for key, values in found.items()}
        cells = [
            f"{m[k]:,.0f} µs" for k in ("get cpu", "get x8 cpu", "patch x8 cpu", "get time", "get x8 time")
        ]
        rows.append([server, *cells, f"{m['idle']:.0f} MiB", f"{m['after']:.0f} MiB"])
    header = [
        "per request",
        "CPU, get",
        "CPU, get ×8",
        "CPU, patch ×8",
        "time, get",
        "time, get ×8",
        "idle",
        "after",
    ]
    print_table(header, rows)


def one(command: list[str], home: Path, pki: Pki, port: int) -> dict[str, float]:
    """Start a server on a fresh store, load it, stop it."""
    for file in home.glob("store.db*"):
        file.unlink()
    here = str(Path(__file__).parent)
    environment = {**os.environ, "MEASURE_HOME": str(home), "PYTHONPATH": here}
    with subprocess.Popen(command, env=environment, cwd=here) as process:
        try:
            wait_for(port)
            idle = tree_memory(process.pid)
            found = asyncio.run(load(pki, port, process.pid))
            return {**found, "idle": idle, "after": tree_memory(process.pid)}
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.3)
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        uvicorn_main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
