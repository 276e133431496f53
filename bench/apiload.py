"""A client that costs little, for measuring servers: HTTP/1.1 over TLS, one request at a time on a connection.

`python -m bench.apiload KUBECONFIG` is a client in a process of its own: it lists pods, and says how long that took.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

NAMESPACE = "load"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LIMIT = 2**26


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that no scheduler looks at."""
    container = {"name": "main", "image": "example.com/sh:1", "command": ["sleep", "1000"]}
    spec = {"schedulingGates": [{"name": "example.com/load"}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def waiting_pod(name: str) -> dict[str, Any]:
    """Return a pod that no node takes, and of which a scheduler says so."""
    made = pod(name)
    made["spec"] = {**made["spec"], "schedulingGates": [], "nodeSelector": {"no": "such-node"}}
    return made


class Api:
    """A server, as a kubeconfig says; `pid` is its process where that is ours."""

    def __init__(self, kubeconfig: Path, pid: int | None = None) -> None:
        self.kubeconfig, self.pid = kubeconfig, pid
        config = yaml.safe_load(kubeconfig.read_text())
        address = urlsplit(config["clusters"][0]["cluster"]["server"])
        self.host, self.port = str(address.hostname), int(address.port or 443)
        user = config["users"][0]["user"]
        self.token = user.get("token", "")
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as file:
                for key in ("client-certificate-data", "client-key-data"):
                    file.write(base64.b64decode(user[key]) + b"\n")
                file.flush()
                self.context.load_cert_chain(file.name)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Yield a connection of its own."""
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.context, limit=_LIMIT)
        try:
            yield Connection(self, reader, writer)
        finally:
            writer.transport.abort()

    async def prepare(self) -> None:
        """Make the namespace of the load, with the account that pods need."""
        async with self.connection() as connection:
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await connection.ask("POST", "/api/v1/namespaces", made, also=409)
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
            await connection.ask("POST", path, account, also=409)

    async def delete_all(self) -> None:
        """Delete all pods of the load, and wait until they are gone."""
        async with self.connection() as connection:
            await connection.ask("DELETE", PODS, {"gracePeriodSeconds": 0})
            deadline = time.monotonic() + 120
            while json.loads(await connection.ask("GET", f"{PODS}?limit=1"))["items"]:
                if time.monotonic() > deadline:
                    raise TimeoutError("waited 120 s for the pods of the load to be gone")
                await asyncio.sleep(0.2)


class Connection:
    """Requests one after the other."""

    def __init__(self, api: Api, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._api, self._reader, self._writer = api, reader, writer

    async def create(self, obj: dict[str, Any]) -> bytes:
        """Create a pod."""
        return await self.ask("POST", PODS, obj)

    async def get(self, name: str) -> bytes:
        """Get a pod."""
        return await self.ask("GET", f"{PODS}/{name}")

    async def list(self, selector: str = "") -> bytes:
        """List the pods, or those with a label."""
        return await self.ask("GET", f"{PODS}?labelSelector={quote(selector)}" if selector else PODS)

    async def watch(self) -> AsyncIterator[bytes]:
        """Yield the lines of a watch of all pods from now on; the first is empty, when the server has answered."""
        found = json.loads(await self.ask("GET", f"{PODS}?limit=1"))
        version = found["metadata"]["resourceVersion"]
        self._send("GET", f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=3000", b"")
        code, _ = await self._head()
        if code != 200:
            raise ConnectionError(f"a watch was answered {code}")
        yield b""
        rest = b""
        while size := int((await self._reader.readline()).strip() or b"0", 16):
            *lines, rest = (rest + await self._reader.readexactly(size)).split(b"\n")
            await self._reader.readline()
            for line in lines:
                yield line

    async def ask(self, method: str, path: str, body: Any = None, *, also: int = 0) -> bytes:
        """Return the body of an answer that says 2xx, or `also`; ConnectionError with any other."""
        self._send(method, path, b"" if body is None else json.dumps(body).encode())
        code, headers = await self._head()
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int((await self._reader.readline()).strip() or b"0", 16):
                parts.append(await self._reader.readexactly(size))
                await self._reader.readline()
            await self._reader.readline()
            answer = b"".join(parts)
        else:
            answer = await self._reader.readexactly(int(headers.get("content-length", "0")))
        if code >= 300 and code != also:
            raise ConnectionError(f"{method} {path} was answered {code}: {answer[:300]!r}")
        return answer

    def _send(self, method: str, path: str, body: bytes) -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._api.host}\r\nAuthorization: Bearer {self._api.token}\r\n"
            f"User-Agent: bench\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip().lower()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        return int(lines[0].split()[1]), headers


class Watching:
    """Watchers of all pods; `async with` until it is left."""

    def __init__(self, api: Api, count: int) -> None:
        self._api, self._count = api, count
        self._sent: dict[str, float] = {}
        self._arrived: list[tuple[str, float]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Watching:
        for first in range(0, self._count, 50):
            ready = [asyncio.Event() for _ in range(min(50, self._count - first))]
            self._tasks += [asyncio.create_task(self._one(each)) for each in ready]
            async with asyncio.timeout(60):
                await asyncio.gather(*(each.wait() for each in ready))
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one(self, ready: asyncio.Event) -> None:
        async with self._api.connection() as connection:
            async for line in connection.watch():
                ready.set()
                if b'"ADDED"' in line[:20]:
                    now = time.perf_counter()
                    at = line.index(b'"name":"') + 8
                    self._arrived.append((line[at : line.index(b'"', at)].decode(), now))

    def sent(self, name: str, when: float) -> None:
        """Take when the write of a pod was sent."""
        self._sent[name] = when

    async def seen(self, count: int) -> None:
        """Return when every watcher has seen so many pods. Raises TimeoutError."""
        async with asyncio.timeout(60):
            while len(self._arrived) < count * self._count:
                await asyncio.sleep(0.01)

    def late(self) -> list[float]:
        """Return how long after its write was sent each event came, in seconds."""
        return [when - self._sent[name] for name, when in self._arrived]


async def listed(api: Api) -> tuple[list[float], list[float]]:
    """Return how long lists of all pods took, and lists by a label, of a client in another process: reading a long
    answer would else keep those of this one waiting."""
    command = (sys.executable, "-m", "bench.apiload", str(api.kubeconfig))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    if process.returncode:
        raise ConnectionError("the client that lists has failed")
    whole, some = json.loads(told)
    return whole, some


async def _list(api: Api) -> None:
    took: tuple[list[float], list[float]] = ([], [])
    async with api.connection() as connection:
        await connection.list()
        for _ in range(10):
            for seconds, selector in zip(took, ("", "part=7"), strict=True):
                began = time.perf_counter()
                await connection.list(selector)
                seconds.append(time.perf_counter() - began)
    print(json.dumps(took))


if __name__ == "__main__":
    asyncio.run(_list(Api(Path(sys.argv[1]))))
