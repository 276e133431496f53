"""Sends odd requests to a server of its own, and stops at the first that it answers wrongly.

    python -m tests.hostile.fuzz [REQUESTS] [--seed N]        # 150,000

Wrong is: a 5xx without one of the reasons below, no answer in `PATIENCE_SECONDS`, a connection that is cut off
without one, an error that is no Status, a process that is gone or has grown beyond `MEMORY_MIB`, an event loop that
stands still for longer than `PAUSE_SECONDS`. Prints one line of figures. Exit code 1 with the request as it was sent
when something was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.hostile.fuzz_requests import Case, Requests
from trainshed.cluster.control.launcher import rss_bytes
from trainshed.kube.meta.resources import CRDS, Resource
from trainshed.kube.schema import nodes
from trainshed.kube.schema.nodes import SchemaNode
from trainshed.operator.install import embedded_objects

CONNECTIONS = 8
PATIENCE_SECONDS = 20.0
REASONED = ((501, "NotImplemented"), (503, "ServiceUnavailable"), (504, "Timeout"))
"""What a 5xx may say: proxies are not served, there are no nodes here, a resourceVersion may lie in the future."""
AS_KUBERNETES = "Internal error occurred: the spec replicas field "
"""How a 500 begins that Kubernetes answers, too: to a GET of the `/scale` of an object that says no number."""
MEMORY_MIB = 700
PAUSE_SECONDS = 0.5
"""How much CPU time of the server may pass without a turn of its event loop."""
_PAUSE = re.compile(r"^PAUSE ([\d.]+) (.*)$", re.MULTILINE)


class Violation(Exception):
    """The server did what it must never do."""


@dataclass
class Reply:
    """An answer, read to its end."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Peer:
    """One connection, opened again when the server has closed it."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, data: bytes, method: str) -> Reply:
        """Return the answer to a whole request. EOFError when the server hung up instead."""
        fresh = self._streams is None
        try:
            return await self._once(data, method)
        except (ConnectionError, EOFError):
            self.close()
            if fresh:
                raise EOFError from None
        try:  # it had closed a connection that was at rest
            return await self._once(data, method)
        except (ConnectionError, EOFError):
            self.close()
            raise EOFError from None

    async def _once(self, data: bytes, method: str) -> Reply:
        reader, writer = await self._open()
        writer.write(data)
        reply = await _read(reader, method)
        if reply.headers.get("connection", "").lower() == "close" or reply.status == 101:
            self.close()
        return reply

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=self._context, limit=2**24
            )
        return self._streams

    async def throw(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own; return what came back within a moment."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
        try:
            writer.write(data)
            async with asyncio.timeout(0.1):
                return await reader.read(65536)
        except (TimeoutError, ConnectionError):
            return b""
        finally:
            writer.transport.abort()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _read(reader: asyncio.StreamReader, method: str) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    reply = Reply(int(head[0].split()[1]), headers)
    if method == "HEAD" or reply.status in (101, 204, 304):
        return reply
    if headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).strip() or b"0", 16):
            reply.body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        reply.body = await reader.readexactly(int(headers.get("content-length", "0")))
    return reply


def judge(reply: Reply) -> str:
    """Return what is wrong with an answer, empty when nothing is."""
    if reply.status < 400 or (reply.status < 500 and not reply.body):  # HEAD
        return ""
    content_type = reply.headers.get("content-type")
    if content_type in ("application/json", "application/yaml"):
        try:
            status = json.loads(reply.body) if content_type.endswith("json") else yaml.safe_load(reply.body)
        except (ValueError, yaml.YAMLError):
            return "the error cannot be read"
        if status.get("kind") != "Status" or status.get("code") != reply.status:
            return "the error is no Status"
        if (reply.status, status.get("reason")) in REASONED:
            return ""
        if reply.status == 500 and str(status.get("message")).startswith(AS_KUBERNETES):
            return ""
    return f"status {reply.status}" if reply.status >= 500 else ""


@dataclass
class Run:
    """What was sent so far."""

    wanted: int
    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0

    def take(self) -> bool:
        """Return whether one more is to be sent."""
        self.sent += 1
        return self.sent <= self.wanted


async def _attack(run: Run, requests: Requests, peer: Peer, token: str) -> None:
    while run.take():
        case = requests.next()
        data = case.encode(token)
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                if case.raw:
                    answer = await peer.throw(data)
                    status = int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0
                    wrong = f"status {status}" if status >= 500 else ""
                else:
                    reply = await peer.ask(data, case.method)
                    status, wrong = reply.status, judge(reply)
                    if wrong:
                        wrong += f": {reply.body[:500]!r}"
        except TimeoutError:
            raise Violation(_told(case, f"no answer in {PATIENCE_SECONDS} s")) from None
        except EOFError:
            raise Violation(_told(case, "the server hung up without an answer")) from None
        if wrong:
            raise Violation(_told(case, wrong))
        run.statuses[status] += 1
        run.slowest = max(run.slowest, time.monotonic() - began)


def _told(case: Case, what: str) -> str:
    return f"{what}\n{case.encode('TOKEN')[:4000]!r}"


async def fuzz(wanted: int, seed: int) -> str:
    """Return the line of figures. Raises Violation."""
    with tempfile.TemporaryDirectory(prefix="trainshed-fuzz-") as directory:
        home, log = Path(directory) / "state", Path(directory) / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.server", str(home)],
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=Path(__file__).parents[2],
            )
        assert server.stdout is not None
        try:
            if not await asyncio.to_thread(server.stdout.readline):
                raise Violation("the server did not start")
            line = await _against(server.pid, home / "kubeconfig", wanted, seed)
            if server.poll() is not None:
                raise Violation(f"the server is gone, exit code {server.returncode}")
            tracebacks = log.read_text().count("Traceback")
            if tracebacks:
                raise Violation(f"{tracebacks} tracebacks in the log:\n{log.read_text()[-4000:]}")
            pauses = [(float(took), where) for took, where in _PAUSE.findall(log.read_text())]
            longest, where = max(pauses, default=(0.0, ""))
            if longest > PAUSE_SECONDS:
                raise Violation(f"everybody waited for {longest:.3f} s of CPU: {where}")
            return f"{line}; longest pause of the event loop {longest * 1000:.0f} ms of CPU ({where})"
        except Violation as violation:
            raise Violation(f"{violation}\n(seed {seed})\n{log.read_text()[-3000:]}") from None
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


async def _against(pid: int, kubeconfig: Path, wanted: int, seed: int) -> str:
    config = yaml.safe_load(kubeconfig.read_text())
    port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    peers = [Peer(port, context) for _ in range(CONNECTIONS)]
    custom = await _install(peers[0], token)
    run, began, before = Run(wanted), time.monotonic(), rss_bytes(pid)
    try:
        async with asyncio.TaskGroup() as tasks:
            for number, peer in enumerate(peers):
                tasks.create_task(_attack(run, Requests(seed + number, custom), peer, token))
            tasks.create_task(_bounded(run, pid))
        seconds = time.monotonic() - began
        healthy = await peers[0].ask(Case("GET", "/api/v1/namespaces").encode(token), "GET")
        if healthy.status != 200:
            raise Violation(f"afterwards a list answers {healthy.status}")
    except* Violation as group:
        raise group.exceptions[0] from None
    finally:
        for peer in peers:
            peer.close()
    kinds = ", ".join(f"{n} × {status}" for status, n in sorted(run.statuses.items()) if status)
    return (
        f"fuzz: {wanted} requests in {seconds:.0f} s ({wanted / seconds:.0f}/s), slowest {run.slowest:.2f} s, memory"
        f" {before / 2**20:.0f} → {rss_bytes(pid) / 2**20:.0f} MiB, 0 violations ({kinds})"
    )


async def _bounded(run: Run, pid: int) -> None:
    while run.sent < run.wanted:
        await asyncio.sleep(0.5)
        if rss_bytes(pid) > MEMORY_MIB * 2**20:
            raise Violation(f"the server has grown to {rss_bytes(pid) / 2**20:.0f} MiB")


async def _install(peer: Peer, token: str) -> dict[Resource, SchemaNode]:
    """Create our CRDs, so that their schemas are attacked, too; return the kinds."""
    found: dict[Resource, SchemaNode] = {}
    for obj in embedded_objects():
        if obj["kind"] == CRDS.kind:
            body = json.dumps(obj).encode()
            case = Case("POST", CRDS.path(None), {"Content-Type": "application/json"}, body)
            reply = await peer.ask(case.encode(token), "POST")
            assert reply.status == 201, reply
            names, version = obj["spec"]["names"], obj["spec"]["versions"][0]
            resource = Resource(obj["spec"]["group"], version["name"], names["plural"], names["kind"], True)
            found[resource] = nodes.from_crd(version["schema"]["openAPIV3Schema"])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fuzz"}}
    case = Case(
        "POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, json.dumps(namespace).encode()
    )
    await peer.ask(case.encode(token), "POST")
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("requests", type=int, nargs="?", default=150_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    try:
        print(asyncio.run(fuzz(arguments.requests, arguments.seed)))
    except Violation as violation:
        print(f"fuzz: VIOLATION: {violation}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
