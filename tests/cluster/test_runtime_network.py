"""The network of pods on the real kernel: addresses, names, the proxy, the listener of the API. Left out: egress."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import run_tests_as
from tests.cluster.runtime_programs import CLIENT, SERVER
from tests.cluster.sandboxes import Sandboxes, until
from trainshed.cluster.sandbox.api import (
    DnsRecords,
    Runtime,
)
from trainshed.cluster.sandbox.client.connection import Connection


async def test_two_pods_listen_on_the_same_port_and_reach_each_other(boxes: Sandboxes) -> None:
    one, two = await boxes.pod("one"), await boxes.pod("two")
    assert one.ip != two.ip
    for uid in ("one", "two"):
        await boxes.start(uid, "python3", "-c", SERVER, uid)
    for uid in ("one", "two"):
        await boxes.printed(uid, "up\n")
    assert await boxes.exec("one", "python3", "-c", CLIENT, two.ip, "23456") == (0, b"two\n")
    assert await boxes.exec("two", "python3", "-c", CLIENT, one.ip, "23456") == (0, b"one\n")
    stream = await boxes.runtime.dial("one", 23456)
    assert await stream.read() == b"one"
    await stream.close()
    with pytest.raises(ConnectionRefusedError):
        await boxes.runtime.dial("one", 1)


async def test_frames_between_pods_are_as_large_as_the_kernel_lets_them(boxes: Sandboxes) -> None:
    """Ranks exchange gradients over this network: with 1,500 bytes a frame it carries two thirds as much."""
    await boxes.pod("wide")
    await boxes.start("wide", "sleep", "60")
    ask = "import fcntl, socket; r = fcntl.ioctl(socket.socket(), 0x8921, b'eth0'.ljust(32, b'\\0'))"
    tell = "print(int.from_bytes(r[16:20], 'little'))"
    assert await boxes.exec("wide", "python3", "-c", f"{ask}\n{tell}") == (0, b"65535\n")


async def test_host_network(boxes: Sandboxes) -> None:
    state = await boxes.pod("host", host_network=True)
    await boxes.start("host", "readlink", "/proc/self/ns/net")
    await boxes.end("host")
    assert state.ip == ""
    assert boxes.output("host").strip() == os.readlink("/proc/self/ns/net")  # noqa: PTH115


async def test_dns(boxes: Sandboxes) -> None:
    state = await boxes.pod("dns", nameservers=("10.88.0.1",), searches=("default.svc.cluster.local",))
    await boxes.start("dns", "sleep", "60")
    ready, slow = "ready.default.svc.cluster.local", "slow.default.svc.cluster.local"
    await boxes.runtime.set_records(DnsRecords(services={ready: ("10.88.9.9",)}, pending=(slow,)))
    look_up = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    assert await boxes.exec("dns", "python3", "-c", look_up, "ready") == (0, b"10.88.9.9\n")
    code, output = await boxes.exec("dns", "python3", "-c", look_up, "nobody.default.svc.cluster.local")
    assert (code, b"not known" in output) == (1, True)
    waiting = asyncio.create_task(boxes.exec("dns", "python3", "-c", look_up, "slow"))
    await asyncio.sleep(0.3)  # the question is on its way; an answer before the address arrives would fail
    await boxes.runtime.set_records(DnsRecords(services={slow: (state.ip,)}))
    assert await waiting == (0, f"{state.ip}\n".encode())


FETCH = """
import sys, urllib.request
proxy = urllib.request.ProxyHandler({"http": "http://10.88.0.1:3128"})
print(urllib.request.build_opener(proxy).open(sys.argv[1], timeout=10).read().decode(), end="")
"""


async def test_the_proxy_leads_to_pods_by_name_and_address_and_outlives_sandboxd(boxes: Sandboxes) -> None:
    server = await boxes.pod("server", namespace="models")
    await boxes.start(
        "server", "sh", "-c", "cd /tmp && echo here > index.html && exec python3 -m http.server 8000"
    )
    await boxes.pod("client", namespace="models")
    await boxes.start("client", "sleep", "60")
    await boxes.pod("stranger", namespace="other")
    await boxes.start("stranger", "sleep", "60")
    await boxes.runtime.set_records(DnsRecords(services={"web.models.svc.cluster.local": (server.ip,)}))

    async def fetches(uid: str, host: str) -> bool:
        return await boxes.exec(uid, "python3", "-c", FETCH, f"http://{host}:8000/") == (0, b"here\n")

    await until("the server answers", lambda: fetches("client", server.ip))
    for uid, host, found in (
        ("client", "web", True),
        ("client", "web.models", True),
        ("client", "web.models.svc.cluster.local", True),
        ("stranger", "web.models", True),
        ("stranger", "web", False),
    ):
        assert await fetches(uid, host) is found, (uid, host)

    connection = Connection(str(boxes.home / "run" / "sandboxd.sock"))
    os.kill(connection.peer_pid, signal.SIGKILL)
    await connection.receive()
    connection.close()
    await boxes.runtime.start()
    for _ in range(20):  # more than were opened in advance
        assert await fetches("client", "web")


async def test_cluster_listener_is_the_same_after_a_restart(boxes: Sandboxes) -> None:
    await boxes.pod("api")
    await boxes.start("api", "sleep", "60")
    first = await boxes.runtime.cluster_listener("10.96.0.1", 443)
    inode = os.fstat(first.fileno()).st_ino
    first.close()
    second_runtime = Runtime(boxes.runtime.paths)
    await second_runtime.start()
    second = await second_runtime.cluster_listener("10.96.0.1", 443)
    assert os.fstat(second.fileno()).st_ino == inode

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"api")
        writer.close()

    async with await asyncio.start_server(greet, sock=second):
        assert await boxes.exec("api", "python3", "-c", CLIENT, "10.96.0.1", "443") == (0, b"api\n")
    await second_runtime.close()


LISTENER = """
import socket
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print("listens", flush=True)
marks = (b"honest-arp", b"honest", b"other-hardware", b"other-address", b"arp-for-another", b"arp-of-other-hardware",
    b"router", b"unknown", b"names")
while True:
    frame = heard.recv(65536)
    for mark in marks:
        if b"<" + mark + b">" in frame:
            print(mark.decode(), flush=True)
            if mark == b"honest":
                raise SystemExit
"""
SPOOFER = """
import socket, struct, sys
own, gateway = (socket.inet_aton(text) for text in (sys.argv[1], "10.88.0.1"))
mine, theirs, everybody = b"\\x0a\\x58" + own, b"\\x0a\\x58" + gateway, b"\\xff" * 6
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
def send(hardware, kind, body, mark):
    wire.send(everybody + hardware + struct.pack("!H", kind) + body + b"<" + mark + b">" + bytes(40))
def arp(hardware, address):
    return struct.pack("!HHBBH", 1, 0x800, 6, 4, 2) + hardware + address + everybody + own
def ip(source, port=4000):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 60, 0, 0, 9, 17, 0) + source + b"\\xff" * 4
    total = sum(struct.unpack("!10H", head))  # bridges may drop what has no right sum
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", total ^ 0xFFFF) + head[12:]
    return head + struct.pack("!HHHH", port, 4000, 40, 0)
send(theirs, 0x0800, ip(own), b"other-hardware")
send(mine, 0x0800, ip(gateway), b"other-address")
send(mine, 0x0800, ip(gateway, 53), b"names")
send(mine, 0x0806, arp(mine, gateway), b"arp-for-another")
send(mine, 0x0806, arp(theirs, own), b"arp-of-other-hardware")
send(mine, 0x86dd, struct.pack("!IHBB", 0x60000000, 16, 58, 255) + b"\\xfe\\x80" + bytes(14) + b"\\xff\\x02" + bytes(13)
    + b"\\x01" + struct.pack("!BBH", 134, 0, 0), b"router")
send(mine, 0x88b5, b"", b"unknown")
send(mine, 0x0806, arp(mine, own), b"honest-arp")
send(mine, 0x0800, ip(own), b"honest")
"""


async def test_a_pod_sends_under_its_own_addresses_alone(boxes: Sandboxes) -> None:
    """Else one with NET_RAW, which containers have, reads what others send to the API, or answers for the DNS."""
    await boxes.pod("listener")
    spoofer = await boxes.pod("spoofer")
    await boxes.start("listener", "python3", "-u", "-c", LISTENER)
    await boxes.printed("listener", "listens\n")
    await boxes.start("spoofer", "python3", "-c", SPOOFER, spoofer.ip)
    assert (await boxes.end("spoofer")).exit_code == 0, boxes.output("spoofer")
    await boxes.end("listener")
    assert boxes.output("listener").splitlines() == ["listens", "honest-arp", "honest"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the others run as an ordinary user already")
def test_so_does_one_of_an_ordinary_user(for_everybody: Path) -> None:
    """The filter is set with the rights that its user has in the cluster's own network."""
    test = f"{__file__}::{test_a_pod_sends_under_its_own_addresses_alone.__name__}"
    assert "1 passed" in run_tests_as(54326, test, for_everybody)
