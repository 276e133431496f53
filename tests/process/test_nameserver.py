"""The DNS server on loopback sockets, driven one turn of its loop at a time."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import dnslib
import pytest

from trainshed.cluster.sandbox.loop import Loop
from trainshed.cluster.sandbox.net import nameserver
from trainshed.cluster.sandbox.net.nameserver import NameServer
from trainshed.cluster.sandbox.net.zone import Zone

READY = "ready.default.svc.cluster.local"
SLOW = "slow.default.svc.cluster.local"


class Server:
    def __init__(self) -> None:
        self.loop = Loop()
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self.tcp = socket.create_server(("127.0.0.1", 0))
        for sock in (udp, self.tcp):
            sock.setblocking(False)
        self.server = NameServer(self.loop, udp, self.tcp)
        self.server.set_zone(Zone({READY: ("10.88.0.2",)}, (SLOW,)))
        self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.client.connect(udp.getsockname())
        self.client.setblocking(False)
        self._open = [udp, self.tcp, self.client]

    def ask(self, name: str) -> None:
        self.client.send(dnslib.DNSRecord.question(name).pack())
        self.loop.run_once(1)

    def answer(self, seconds: float = 0.0) -> dnslib.DNSRecord | None:
        """Return what has arrived, running the loop for `seconds` at most."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return dnslib.DNSRecord.parse(self.client.recv(4096))
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return None
                self.loop.run_once(0.05)

    def close(self) -> None:
        for sock in self._open:
            sock.close()
        self.loop.close()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def test_cluster_names_are_answered(server: Server) -> None:
    server.ask(READY)
    answer = server.answer()
    assert answer is not None
    assert [str(record.rdata) for record in answer.rr] == ["10.88.0.2"]


def test_a_pending_name_is_answered_when_its_address_arrives(server: Server) -> None:
    server.ask(SLOW)
    assert server.answer() is None
    server.server.set_zone(Zone({READY: ("10.88.0.2",)}, (SLOW,)))
    assert server.answer() is None
    server.server.set_zone(Zone({SLOW: ("10.88.0.3",)}, ()))
    answer = server.answer()
    assert answer is not None
    assert [str(record.rdata) for record in answer.rr] == ["10.88.0.3"]


def test_a_pending_name_is_answered_in_the_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nameserver, "HOLD", 0.05)
    server.ask(SLOW)
    answer = server.answer(5)
    assert answer is not None
    assert (dnslib.RCODE[answer.header.rcode], answer.rr) == ("NOERROR", [])


def test_other_names_go_to_the_resolvers_of_the_host(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any that answers: SERVFAIL, at once when nothing listens there."""
    monkeypatch.setattr(nameserver, "resolvers", lambda: ["127.0.0.1"])
    server.ask("example.org")
    answer = server.answer(5)
    assert answer is not None
    assert dnslib.RCODE[answer.header.rcode] == "SERVFAIL"


def test_an_external_name_is_followed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    alias = {"db.default.svc.cluster.local": "db.example.org"}
    server.server.set_zone(Zone({}, (), {}, alias))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
        upstream.bind(("127.0.0.1", 0))
        monkeypatch.setattr(nameserver, "DNS_PORT", upstream.getsockname()[1])
        monkeypatch.setattr(nameserver, "resolvers", lambda: ["127.0.0.1"])
        server.ask("db.default.svc.cluster.local")
        asked, address = upstream.recvfrom(4096)
        reply = dnslib.DNSRecord.parse(asked).reply()
        assert str(reply.q.qname) == "db.example.org."
        reply.add_answer(dnslib.RR("db.example.org", rdata=dnslib.A("192.0.2.1")))
        upstream.sendto(reply.pack(), address)
        answer = server.answer(5)
    assert answer is not None
    found = [(str(record.rname), str(record.rdata)) for record in answer.rr]
    assert found == [
        ("db.default.svc.cluster.local.", "db.example.org."),
        ("db.example.org.", "192.0.2.1"),
    ]


def test_one_client_has_so_many_questions_on_their_way(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are too many fail at once; when one is answered there is room for another."""
    monkeypatch.setattr(nameserver, "resolvers", lambda: ["127.0.0.1"])
    monkeypatch.setattr(nameserver, "_UPSTREAM_TIMEOUT", 60.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
        upstream.bind(("127.0.0.1", 0))
        monkeypatch.setattr(nameserver, "DNS_PORT", upstream.getsockname()[1])
        for number in range(64):
            server.ask(f"n{number}.example.org")
        assert server.answer() is None
        server.ask("one.more.example.org")
        refused = server.answer(5)
        assert refused is not None
        assert (str(refused.q.qname), dnslib.RCODE[refused.header.rcode]) == (
            "one.more.example.org.",
            "SERVFAIL",
        )
        server.ask(READY)
        assert server.answer(5) is not None, "names of the cluster are answered"
        asked, address = upstream.recvfrom(4096)
        upstream.sendto(dnslib.DNSRecord.parse(asked).reply().pack(), address)
        assert server.answer(5) is not None
        server.ask("another.example.org")
        assert server.answer() is None
        for _ in range(64):
            asked, address = upstream.recvfrom(4096)
            upstream.sendto(dnslib.DNSRecord.parse(asked).reply().pack(), address)
            assert server.answer(5) is not None


def test_forwarding_keeps_the_client_s_id(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    upstream.bind(("127.0.0.1", 0))
    monkeypatch.setattr(nameserver, "DNS_PORT", upstream.getsockname()[1])
    query = dnslib.DNSRecord.question("example.org")
    replies: list[bytes] = []
    nameserver.Forward(loop, query.pack(), ["127.0.0.1"], replies.append)
    asked, address = upstream.recvfrom(4096)
    assert asked[2:] == query.pack()[2:]
    forged = dnslib.DNSRecord.parse(asked)
    forged.header.id ^= 1
    upstream.sendto(forged.reply().pack(), address)
    reply = dnslib.DNSRecord.parse(asked).reply()
    reply.add_answer(dnslib.RR("example.org", rdata=dnslib.A("192.0.2.1")))
    upstream.sendto(reply.pack(), address)
    for _ in range(2):
        loop.run_once(1)
    (received,) = (dnslib.DNSRecord.parse(data) for data in replies)
    assert received.header.id == query.header.id
    assert str(received.rr[0].rdata) == "192.0.2.1"
    upstream.close()
    loop.close()


def test_queries_over_tcp(server: Server) -> None:
    with socket.create_connection(server.tcp.getsockname()) as client:
        query = dnslib.DNSRecord.question(READY).pack()
        client.sendall(struct.pack("!H", len(query)) + query)
        client.settimeout(0.01)
        deadline = time.monotonic() + 5
        data = b""
        while len(data) < 2 or len(data) < 2 + struct.unpack_from("!H", data)[0]:
            assert time.monotonic() < deadline, "waited in vain for the answer over TCP"
            server.loop.run_once(0.05)
            try:
                data += client.recv(4096)
            except TimeoutError:
                continue
    assert str(dnslib.DNSRecord.parse(data[2:]).rr[0].rdata) == "10.88.0.2"
    server.loop.run_once(1)  # the server sees the end of the connection
