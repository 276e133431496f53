"""The pods' network, for 0004: `python docs/decisions/measure/network.py`.

Making a bridge port, throughput and round trips between pods against loopback, DNS answers, and what importing
pyroute2 (measured when it is installed) costs against our own rtnetlink.
"""
# ruff: noqa: T201

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import cost, in_fresh_process, median, print_table, print_versions

from trainshed.cluster.sandbox.api import ContainerSpec, Runtime, RuntimePaths, SandboxSpec

ROUNDS = 5
SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 23456))
print("listening", flush=True)
while True:
    peer, _ = listener.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first = peer.recv(1)
    if first == b"e":
        while data := peer.recv(64):
            peer.sendall(data)
    else:
        buffer = bytearray(1 << 20)
        while peer.recv_into(buffer):
            pass
    peer.close()
"""
CLIENT = """
import socket, sys, time
def connect(kind):
    sock = socket.create_connection((sys.argv[1], 23456), 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(kind)
    return sock
sock = connect(b"e")
trips = []
for _ in range(500):
    started = time.perf_counter()
    sock.sendall(b"x")
    sock.recv(1)
    trips.append(time.perf_counter() - started)
sock.close()
sock = connect(b"d")
data = bytes(1 << 20)
started = time.perf_counter()
for _ in range(1000):
    sock.sendall(data)
sock.close()
print(1000 / 1024 / (time.perf_counter() - started), sorted(trips)[250] * 1e6)
"""
LOOKUP = """
import socket, struct, time
name = b"".join(bytes([len(p)]) + p for p in b"kubernetes.default.svc.cluster.local".split(b".")) + b"\\0"
query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(2)
times = []
for _ in range(200):
    started = time.perf_counter()
    sock.sendto(query, ("10.88.0.1", 53))
    sock.recv(512)
    times.append(time.perf_counter() - started)
print(sorted(times)[100] * 1e6)
"""
PATH = ("PATH", "/usr/local/bin:/usr/bin:/bin")


class Network:
    """Two pods, one of which serves."""

    def __init__(self, runtime: Runtime, home: Path) -> None:
        self.runtime = runtime
        self.home = home
        self.server = ""

    async def start(self) -> None:
        for uid in ("a", "b"):
            state = await self.runtime.run_sandbox(
                SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid)
            )
            self.server = self.server or state.ip
            await self.container(uid, "c", ("sleep", "600"))
        await self.container("a", "server", (sys.executable, "-c", SERVER, self.server))
        log = self.home / "a-server.log"
        async with asyncio.timeout(20):
            while "listening" not in (log.read_text() if log.exists() else ""):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def container(self, uid: str, name: str, argv: tuple[str, ...]) -> None:
        log = str(self.home / f"{uid}-{name}.log")
        await self.runtime.start_container(
            uid, ContainerSpec(name=name, argv=argv, env=(PATH,), log_path=log)
        )

    async def output(self, uid: str, *argv: str) -> list[float]:
        session = await self.runtime.exec(uid, "c", argv, (PATH,), stdin=False, tty=False)
        data = b"".join([part async for _, part in session.output()])
        await session.wait()
        await session.close()
        return [float(word) for word in data.split()]


async def pods(home: Path) -> None:
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", SERVER, "127.0.0.1"], stdout=subprocess.PIPE, text=True
    ) as bare:
        assert bare.stdout is not None
        bare.stdout.readline()
        try:
            network = Network(runtime, home)
            await network.start()
            between, loopback, dns = [], [], []
            for _ in range(ROUNDS):
                between.append(await network.output("b", sys.executable, "-c", CLIENT, network.server))
                loopback.append(await asyncio.to_thread(in_fresh_process, CLIENT, "127.0.0.1"))
                dns += await network.output("b", sys.executable, "-c", LOOKUP)
        finally:
            bare.kill()
            await runtime.stop_all()
    rows = []
    for name, found in (("pod to pod, over the bridge", between), ("host, over loopback", loopback)):
        speed, trip = (median([values[n] for values in found]) for n in (0, 1))
        rows.append([name, f"{speed:.1f} GiB/s", f"{trip:.0f} µs"])
    print_table(["TCP", "throughput", "round trip"], rows)
    print(f"\nDNS answer for a service, from a pod: {median(dns):.0f} µs")


def main() -> None:
    versions = ["pyroute2"] if importlib.util.find_spec("pyroute2") else []
    print_versions("dnslib", *versions)
    rows = []
    modules = ["trainshed.cluster.sandbox.linux.netlink", "trainshed.cluster.sandbox.net.dnswire", "dnslib"]
    for module in [*modules, *versions]:
        time, size = cost(f"import {module}", ROUNDS)
        rows.append([f"`import {module}`", f"{time:.0f} ms", f"{size:.1f} MiB"])
    print_table(["", "time", "resident"], rows)
    print()
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o700)
        asyncio.run(pods(Path(home)))


if __name__ == "__main__":
    main()
