"""What the way over a Service costs, for 0018: `python docs/decisions/measure/services.py`.

Throughput, round trips and connections between two pods, directly, by a cluster IP, and by nftables, in turn.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import median, print_table, print_versions

from trainshed.cluster.sandbox.api import ContainerSpec, ExecSpec, Route, Runtime, RuntimePaths, SandboxSpec

ROUNDS = 5
SERVICE = "10.96.7.7"
TRANSLATED = "10.96.7.8"
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


def translate(home: Path, endpoint: str) -> None:
    """Have the kernel lead `TRANSLATED` to the endpoint, in the namespaces of the process that forwards."""
    forwarder = next(
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and "daemon.serviceproxy" in (line := (entry / "cmdline").read_text())
        and str(home) in line
    )
    rules = (
        f"{sys.executable} {Path(__file__).with_name('nftables.py')} {TRANSLATED} {PORT} {endpoint} {PORT}"
    )
    inside = ["nsenter", "-t", forwarder, "-U", "-n", "--preserve-credentials", "sh", "-ec"]
    subprocess.run([*inside, f"echo 1 > /proc/sys/net/ipv4/ip_forward; {rules}"], check=True)


async def main(home: Path) -> None:
    """Print the table."""
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    environment = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
    try:
        ip = {}
        for uid, argv in (("a", (sys.executable, "-c", SERVER)), ("b", ("sleep", "600"))):
            spec = SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid)
            ip[uid] = (await runtime.run_sandbox(spec)).ip
            log = str(home / f"{uid}.log")
            await runtime.start_container(
                uid, ContainerSpec(name="c", argv=argv, env=environment, log_path=log)
            )
        route = Route(protocol="tcp", ip=SERVICE, port=PORT, endpoints=((ip["a"], PORT),))
        await runtime.set_routes([route])
        async with asyncio.timeout(20):
            while "listening" not in (home / "a.log").read_text():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        translate(home, ip["a"])
        ways: dict[str, list[list[float]]] = {ip["a"]: [], SERVICE: [], TRANSLATED: []}
        for _ in range(ROUNDS):
            for address, found in ways.items():
                argv = (sys.executable, "-c", CLIENT, address)
                session = await runtime.exec("b", ExecSpec(container="c", argv=argv))
                text = b"".join([data async for _, data in session.output()])
                await session.close()
                found.append([float(word) for word in text.split()])
        names = dict(zip(ways, ("pod to pod", "by a cluster IP", "by nftables"), strict=True))
        rows = [
            [
                names[address],
                f"{median(rates):.2f} GiB/s",
                f"{median(trips):.0f} µs",
                f"{median(made):.0f} µs",
            ]
            for address, found in ways.items()
            for rates, trips, made in [tuple(zip(*found, strict=True))]
        ]
        print_table(["", "throughput", "round trip", "connection with a round trip"], rows)
    finally:
        await runtime.stop_all()


if __name__ == "__main__":
    print_versions()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
