"""What the way over a Service costs, for 0018 and 0022: `python docs/decisions/measure/services.py`.

Throughput, round trips and connections between two pods, directly and by a cluster IP, translated by the kernel and
forwarded by a process, in turn.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from figures import median, print_table, print_versions

from trainshed.cluster.sandbox.api import ContainerSpec, ExecSpec, Route, Runtime, RuntimePaths, SandboxSpec

ROUNDS = 5
SERVICE = "10.96.7.7"
PORT = 23456
SERVER = """
import socket, threading
def serve(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first = peer.recv(1)
    buffer = bytearray(1 << 20)
    while size := peer.recv_into(buffer):
        if first == b"e":
            peer.sendall(buffer[:size])
    peer.sendall(b"x")
listener = socket.create_server(("", 23456), backlog=512)
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, sys, time
def connect(kind):
    sock = socket.create_connection((sys.argv[1], 23456), 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(kind)
    return sock
def timed(function, times):
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return sorted(taken)[times // 2] * 1e6
sock = connect(b"e")
def trip():
    sock.sendall(b"x")
    sock.recv(1)
def once():
    with connect(b"e") as one:
        one.sendall(b"x")
        one.recv(1)
trips, connections = timed(trip, 1000), timed(once, 200)
sock = connect(b"d")
data = bytes(1 << 20)
started = time.perf_counter()
for _ in range(2000):
    sock.sendall(data)
sock.shutdown(socket.SHUT_WR)
sock.recv(1)
print(2000 / 1024 / (time.perf_counter() - started), trips, connections)
"""


async def prepare(home: Path) -> tuple[Runtime, str]:
    """Start a runtime with a server and a client, which knows the former by `SERVICE`; return the server's address."""
    home.mkdir()
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    environment = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
    ip = {}
    for uid, argv in (("a", (sys.executable, "-c", SERVER)), ("b", ("sleep", "600"))):
        spec = SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid)
        ip[uid] = (await runtime.run_sandbox(spec)).ip
        log = str(home / f"{uid}.log")
        container = ContainerSpec(name="c", argv=argv, env=environment, log_path=log)
        await runtime.start_container(uid, container)
    await runtime.set_routes([Route(protocol="tcp", ip=SERVICE, port=PORT, endpoints=((ip["a"], PORT),))])
    async with asyncio.timeout(20):
        while "listening" not in (home / "a.log").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return runtime, ip["a"]


async def main(home: Path) -> None:
    """Print the table."""
    os.environ["TRAINSHED_SERVICES"] = "process"
    by_process, _ = await prepare(home / "process")
    os.environ["TRAINSHED_SERVICES"] = ""
    by_kernel, direct = await prepare(home / "kernel")
    ways = {
        "pod to pod": (by_kernel, direct),
        "by a cluster IP, translated": (by_kernel, SERVICE),
        "by a cluster IP, forwarded": (by_process, SERVICE),
    }
    figures: dict[str, list[list[float]]] = {name: [] for name in ways}
    try:
        for _ in range(ROUNDS):
            for name, (runtime, address) in ways.items():
                argv = (sys.executable, "-c", CLIENT, address)
                session = await runtime.exec("b", ExecSpec(container="c", argv=argv))
                text = b"".join([data async for _, data in session.output()])
                await session.close()
                figures[name].append([float(word) for word in text.split()])
        rows = [
            [name, f"{median(rates):.2f} GiB/s", f"{median(trips):.0f} µs", f"{median(made):.0f} µs"]
            for name, found in figures.items()
            for rates, trips, made in [tuple(zip(*found, strict=True))]
        ]
        print_table(["", "throughput", "round trip", "connection with a round trip"], rows)
    finally:
        await by_kernel.stop_all()
        await by_process.stop_all()


if __name__ == "__main__":
    print_versions()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
