"""How long others wait while clients misbehave.

    .venv/bin/python -m bench.crowd [SECONDS] [--only WORD …] [--beside KUBECONFIG]

A client of the API server reads and writes small objects, in turn, beside each of: 16 clients that send bodies of 3 MiB
one after the other; 4 that write ConfigMaps of 1 MB; 400 request heads and 64 bodies without end; 100 watches and 50
lists that nobody reads, while what they watch changes; 1,000 watches of nothing; 50 clients that create ConfigMaps; 500
connections on which a service account asks without end; 100 clients that connect, ask once and leave.

The same crowd is also sent to a second server, so that what it takes of the machine, whose processors and disk all
share, is not counted as what it takes of the server: rounds of `SECONDS` with the crowd at the other server and with
the crowd at this one alternate. A line each for reads and for writes: median and 99th percentile of both, and their
ratios; then how much memory the crowd took. The crowd is niced. With `--beside`, the same of a kube-apiserver of the
machine that this kubeconfig names by a token.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path

import uvloop
import yaml
from tests.e2e import api_process
from tests.hostile.fuzz import Peer
from tests.hostile.fuzz_requests import Case

from trainshed import _collector
from trainshed.cluster.control.controlplane import SWITCH_SECONDS

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JSON = {"Content-Type": "application/json"}
PAUSE_SECONDS = 0.01
SETTLE_SECONDS = 2.0
"""How long a server takes to be done with a crowd that has gone."""
There = Callable[[], None]
"""What a crowd calls when it is there, and again as it likes."""


class Server:
    """A server in a process of its own."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.context = ssl.create_default_context()
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE

    def peer(self) -> Peer:
        return Peer(self.port, self.context)

    async def opened(self, head: bytes) -> asyncio.StreamWriter:
        """Return a connection on which something was sent, and from which nothing is read."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, limit=1024)
        writer.write(head)
        return writer

    def head(self, method: str, path: str, length: int = 0) -> bytes:
        lines = (f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {self.token}")
        lines += ("content-type: application/json", f"content-length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def asked(server: Server, seconds: float) -> dict[str, list[float]]:
    """Return how long each request of an ordinary client took, by method."""
    peer, number = server.peer(), 0
    took: dict[str, list[float]] = {"GET": [], "PATCH": []}
    obj = {"metadata": {"name": "small"}, "data": {"k": "v"}}
    await peer.ask(Case("POST", CONFIGMAPS, JSON, json.dumps(obj).encode()).encode(server.token), "POST")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        merge = {"Content-Type": "application/merge-patch+json"}
        patch = Case("PATCH", f"{CONFIGMAPS}/small", merge, b'{"data":{"k":"%d"}}' % number)
        for case in (Case("GET", f"{CONFIGMAPS}/small"), patch):
            began = time.monotonic()
            reply = await peer.ask(case.encode(server.token), case.method)
            took[case.method].append(time.monotonic() - began)
            assert reply.status == 200, reply
        await asyncio.sleep(PAUSE_SECONDS)
    peer.close()
    return took


async def large_bodies(server: Server, there: There) -> None:
    """Send what no right is needed for, without end."""
    junk = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}, "metadata": {"annotations": {}}}
    body = json.dumps(junk)[:-1].encode() + b',"junk":"' + b"x" * 3_145_000 + b'"}'

    async def one() -> None:
        peer = server.peer()
        while True:
            await peer.ask(Case("POST", REVIEWS, JSON, body).encode(server.token), "POST")
            there()

    await asyncio.gather(*(one() for _ in range(16)))


async def large_objects(server: Server, there: There) -> None:
    """Write ConfigMaps as large as they may be, with many keys, over and over."""
    data = {f"k{number}": "v" * 100 for number in range(9_000)}

    async def one(name: str) -> None:
        peer, method, path, number = server.peer(), "POST", CONFIGMAPS, 0
        while True:
            obj = {"metadata": {"name": name}, "data": {**data, "k0": str(number)}}
            await peer.ask(Case(method, path, JSON, json.dumps(obj).encode()).encode(server.token), method)
            there()
            method, path, number = "PUT", f"{CONFIGMAPS}/{name}", number + 1

    await asyncio.gather(*(one(f"many-keys-{number}") for number in range(4)))


async def slow_senders(server: Server, there: There) -> None:
    """Begin heads and bodies, and stay."""
    heads = [await server.opened(b"GET /version HTTP/1.1\r\nx: y") for _ in range(400)]
    body = server.head("POST", REVIEWS, 3_000_000) + b'{"spec":"' + b"x" * 500_000
    bodies = [await server.opened(body) for _ in range(64)]
    there()
    try:
        await asyncio.Event().wait()
    finally:
        for writer in (*heads, *bodies):
            writer.transport.abort()


async def silent_readers(server: Server, there: There) -> None:
    """Ask for watches and lists, read nothing, and change what is watched."""
    peer = server.peer()
    for number in range(20):
        obj = {"metadata": {"name": f"large-{number}"}, "data": {"k": "x" * 200_000}}
        case = Case("POST", CONFIGMAPS, JSON, json.dumps(obj).encode())
        await peer.ask(case.encode(server.token), "POST")
    asked_for = [server.head("GET", f"{CONFIGMAPS}?watch=1")] * 100 + [server.head("GET", CONFIGMAPS)] * 50
    writers = [await server.opened(head) for head in asked_for]
    for writer in writers:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    there()
    try:
        while True:
            await peer.ask(Case("GET", "/version").encode(server.token), "GET")
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        for writer in writers:
            writer.transport.abort()


async def idle_watches(server: Server, there: There) -> None:
    """Ask for watches of what nobody changes, and read."""
    head = server.head("GET", "/api/v1/namespaces/kube-public/configmaps?watch=1&labelSelector=no=such")
    writers = []
    try:
        for _ in range(1_000):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=server.context, limit=1024
            )
            writers.append(writer)
            writer.write(head)
            await reader.readuntil(b"\r\n\r\n")
        there()
        await asyncio.Event().wait()
    finally:
        for writer in writers:
            writer.transport.abort()


async def creators(server: Server, there: There) -> None:
    """Create small objects without end."""
    numbers = itertools.count()

    async def one() -> None:
        peer = server.peer()
        while True:
            obj = {"metadata": {"name": f"created-{os.getpid()}-{next(numbers)}"}, "data": {"k": "v"}}
            case = Case("POST", CONFIGMAPS, JSON, json.dumps(obj).encode())
            await peer.ask(case.encode(server.token), "POST")
            there()

    await asyncio.gather(*(one() for _ in range(50)))


async def askers(server: Server, there: There) -> None:
    """Ask without end, on many connections, as a pod may: by the token of a service account."""
    tokens = "/api/v1/namespaces/default/serviceaccounts/default/token"
    wanted = Case(
        "POST", tokens, JSON, b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
    )
    reply = await server.peer().ask(wanted.encode(server.token), "POST")
    token = json.loads(reply.body)["status"]["token"]
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    asked = Case("POST", REVIEWS, JSON, json.dumps(review).encode()).encode(token)

    async def one() -> None:
        peer = server.peer()
        while True:
            await peer.ask(asked, "POST")
            there()

    await asyncio.gather(*(one() for _ in range(500)))


async def newcomers(server: Server, there: There) -> None:
    """Connect, ask and leave, without end."""

    async def one() -> None:
        while True:
            peer = server.peer()
            await peer.ask(Case("GET", "/version").encode(server.token), "GET")
            peer.close()
            there()

    await asyncio.gather(*(one() for _ in range(100)))


CROWDS: dict[str, Callable[[Server, There], Coroutine[None, None, None]]] = {
    "16 clients with bodies of 3 MiB": large_bodies,
    "4 clients with ConfigMaps of 1 MB": large_objects,
    "400 heads and 64 bodies without end": slow_senders,
    "100 watches and 50 lists unread": silent_readers,
    "1,000 idle watches": idle_watches,
    "50 clients that create": creators,
    "500 connections of a pod that asks": askers,
    "100 clients that connect for each request": newcomers,
}


class Process:
    """A server of its own state, in a process of its own."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-m", "bench.crowd", "--serve", str(home)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.server = _server(home / "kubeconfig")

    def mebibytes(self) -> float:
        """Return its resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


async def main(seconds: float, rounds: int, names: Sequence[str], beside: Path | None) -> None:
    """Print three lines for each crowd, and two of the server that is beside this one."""
    with tempfile.TemporaryDirectory(prefix="trainshed-crowd-") as directory, contextlib.ExitStack() as stack:
        this, other = (Process(Path(directory) / name) for name in ("this", "other"))
        stack.callback(other.end)
        stack.callback(this.end)
        compared = None if beside is None else _server(beside)
        for name in names:
            await asked(this.server, 1.0)
            before, held = this.mebibytes(), 0.0

            def look() -> None:
                nonlocal held
                held = this.mebibytes()

            await _alternating(name, this.server, other.server, seconds, rounds, look)
            print(f"{name}: {held - before:+.0f} MiB of {before:.0f} MiB", flush=True)
            if compared is not None:
                await _alternating(name, compared, other.server, seconds, rounds, beside="beside it, ")


async def _alternating(
    name: str,
    at: Server,
    other: Server,
    seconds: float,
    rounds: int,
    look: Callable[[], None] = lambda: None,
    beside: str = "",
) -> None:
    """Tell how long a server takes with the crowd at the other one, and with the crowd at it, when `look` is called."""
    here: dict[str, list[float]] = {}
    elsewhere: dict[str, list[float]] = {}
    for _ in range(rounds):
        async with _crowd(name, other):
            _add(elsewhere, await asked(at, seconds))
        async with _crowd(name, at):
            _add(here, await asked(at, seconds))
            look()
    _tell(beside + name, here, elsewhere)


@contextlib.asynccontextmanager
async def _crowd(name: str, at: Server) -> AsyncIterator[None]:
    """Have the crowd at a server, from when it is there; then give the server time to be done with it."""
    command = [sys.executable, "-m", "bench.crowd", "--crowd", name, str(at.port), at.token]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as around:
        try:
            assert around.stdout is not None
            await asyncio.to_thread(around.stdout.readline)
            yield
        finally:
            around.kill()
    await asyncio.sleep(SETTLE_SECONDS)


def _add(taken: dict[str, list[float]], took: dict[str, list[float]]) -> None:
    for method, values in took.items():
        taken.setdefault(method, []).extend(values)


def _server(kubeconfig: Path) -> Server:
    config = yaml.safe_load(kubeconfig.read_text())
    port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    return Server(port, config["users"][0]["user"]["token"])


def serve(home: Path) -> None:
    """Serve until SIGTERM, on the loop that the control plane has, with its turns of threads and its collections."""
    _collector.pause()
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(api_process.main(home, _collector.settle))


def _tell(name: str, here: dict[str, list[float]], elsewhere: dict[str, list[float]]) -> None:
    def quantiles(values: list[float]) -> tuple[float, float]:
        return statistics.median(values) * 1000, statistics.quantiles(values, n=100)[98] * 1000

    for method, values in here.items():
        (median, late), (base, base_late) = quantiles(values), quantiles(elsewhere[method])
        print(
            f"{name}: {method} median {median:.1f} ms, p99 {late:.1f} ms; with the crowd at another server {base:.1f}"
            f" and {base_late:.1f} ms; {median / base:.1f} and {late / base_late:.1f} times as long, n={len(values)}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float, nargs="?", default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], help="crowds whose names have one of these words")
    parser.add_argument(
        "--beside", type=Path, metavar="KUBECONFIG", help="of a kube-apiserver, asked the same"
    )
    parser.add_argument("--crowd", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    elif arguments.crowd:
        name, port, token = arguments.crowd
        os.nice(10)
        told = functools.cache(lambda: print("there", flush=True))
        asyncio.run(CROWDS[name](Server(int(port), token), told))
    else:
        chosen = [name for name in CROWDS if any(word in name for word in arguments.only)]
        asyncio.run(main(arguments.seconds, arguments.rounds, chosen, arguments.beside))
