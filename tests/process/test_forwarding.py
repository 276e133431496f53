"""Forwarding on loopback sockets, its loop driven by hand: what is passed on, what is bounded."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from trainshed.cluster.sandbox.loop import Loop
from trainshed.cluster.sandbox.net.budget import Budget
from trainshed.cluster.sandbox.net.forwarding import Endpoints, TcpPort
from trainshed.cluster.sandbox.net.udpforwarding import UdpPort

LOOPBACK = "127.0.0.1"
Address = tuple[str, int]


def plain(protocol: str, ip: str) -> socket.socket:
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    return socket.socket(socket.AF_INET, kind)


class World:
    """A forwarded TCP port and UDP port before one server of each."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.server = socket.create_server((LOOPBACK, 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind((LOOPBACK, 0))
        self.budget = Budget(3, 2)
        self.endpoints = Endpoints([self.server.getsockname()], 0)
        self._open: list[socket.socket] = [self.server, self.datagrams]
        listener = socket.create_server((LOOPBACK, 0))
        self.address: Address = listener.getsockname()
        self.tcp = TcpPort(self.loop, listener, self.endpoints, plain, self.budget)
        udp = plain("udp", "")
        udp.bind((LOOPBACK, 0))
        self.udp_address: Address = udp.getsockname()
        self.udp_endpoints = Endpoints([self.datagrams.getsockname()], 0)
        self.udp = UdpPort(self.loop, udp, self.udp_endpoints, plain, Budget(3, 2))
        for sock in self._open:
            sock.setblocking(False)

    def connect(self, client: str = LOOPBACK) -> socket.socket:
        sock = socket.create_connection(self.address, 5, (client, 0))
        sock.setblocking(False)
        self._open.append(sock)
        return sock

    def until(self, what: str, check: Callable[[], bool]) -> None:
        """Run the loop until `check` is true."""
        deadline = time.monotonic() + 10
        while not check():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self.loop.run_once(0.02)

    def accepted(self) -> socket.socket:
        """Return the next connection at the server."""
        found: list[socket.socket] = []

        def arrived() -> bool:
            try:
                found.append(self.server.accept()[0])
            except BlockingIOError:
                return False
            return True

        self.until("a connection at the server", arrived)
        found[0].setblocking(False)
        self._open.append(found[0])
        return found[0]

    def read(self, sock: socket.socket, size: int = 1) -> bytes:
        """Return the next bytes, at least `size` unless the end comes first."""
        data = bytearray()

        def complete() -> bool:
            while len(data) < size:
                try:
                    more = sock.recv(1 << 20)
                except BlockingIOError:
                    return False
                data.extend(more)
                if not more:
                    break
            return True

        self.until(f"{size} bytes", complete)
        return bytes(data)

    def is_reset(self, sock: socket.socket) -> None:
        with pytest.raises(ConnectionResetError):
            self.read(sock)

    def close(self) -> None:
        self.tcp.close()
        self.udp.close()
        for sock in self._open:
            sock.close()
        self.until("the end of what is joined", lambda: not self.loop._handlers)
        self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    one = World()
    yield one
    one.close()


def test_both_ways_and_each_end_by_itself(world: World) -> None:
    client = world.connect()
    client.sendall(b"hello")
    client.shutdown(socket.SHUT_WR)
    server = world.accepted()
    assert world.read(server, 5) == b"hello"
    assert world.read(server) == b""
    server.sendall(b"and back")
    assert world.read(client, 8) == b"and back"
    server.close()
    assert world.read(client) == b""
    world.until("the end of it", lambda: world.budget.take(LOOPBACK) and world.budget.take(LOOPBACK))


def test_a_reader_that_is_slow_slows_its_writer_and_nothing_is_kept_or_lost(world: World) -> None:
    client = world.connect()
    server = world.accepted()
    sent, quiet = 0, 0
    pattern = bytes(range(256)) * 4096
    while quiet < 20:  # nothing fits in any more
        try:
            sent += client.send(pattern[sent % len(pattern) :])
            quiet = 0
        except BlockingIOError:
            quiet += 1
            world.loop.run_once(0.01)
    client.shutdown(socket.SHUT_WR)
    received = world.read(server, sent)
    assert len(received) == sent
    assert received == (pattern * (sent // len(pattern) + 1))[:sent]
    assert world.read(server) == b""
    server.sendall(b"done")
    assert world.read(client, 4) == b"done"


def test_a_reset_is_passed_on(world: World) -> None:
    client = world.connect()
    server = world.accepted()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.close()
    world.is_reset(client)


def test_whoever_has_too_many_connections_gets_no_more_and_others_do(world: World) -> None:
    mine = [world.connect(), world.connect()]
    served = [world.accepted() for _ in mine]
    world.is_reset(world.connect())
    other = world.connect("127.0.0.2")
    served.append(world.accepted())
    world.is_reset(world.connect("127.0.0.3"))
    mine[0].close()
    assert [world.read(sock) for sock in served if sock is not served[1] and sock is not served[2]] == [b""]
    served[0].close()
    client = world.connect()
    served.append(world.accepted())
    for sock, peer in ((client, served[3]), (other, served[2])):
        sock.sendall(b"x")
        assert world.read(peer) == b"x"


def test_without_an_endpoint_that_answers_the_connection_is_reset(world: World) -> None:
    with socket.create_server((LOOPBACK, 0)) as closed:
        nobody = closed.getsockname()
    world.endpoints.replace([nobody], 0)
    world.is_reset(world.connect())
    world.endpoints.replace([], 0)
    world.is_reset(world.connect())
    for _ in range(4):
        world.endpoints.replace([nobody, world.server.getsockname()], 0)
        client = world.connect()
        server = world.accepted()
        client.close()
        assert world.read(server) == b""
        server.close()
        world.until("its end", lambda: world.budget.take(LOOPBACK))
        world.budget.give(LOOPBACK)


def test_datagrams_go_to_an_endpoint_and_back_to_each_client(world: World) -> None:
    clients = [plain("udp", "") for _ in range(2)]
    try:
        for number, client in enumerate(clients):
            client.bind((f"127.0.0.{number + 1}", 0))
            client.connect(world.udp_address)
            client.setblocking(False)
            client.send(b"%d" % number)
        sources = []
        for _ in clients:
            found: list[tuple[bytes, Address]] = []

            def arrived(found: list[tuple[bytes, Address]] = found) -> bool:
                try:
                    found.append(world.datagrams.recvfrom(99))
                except BlockingIOError:
                    return False
                return True

            world.until("a datagram", arrived)
            sources.append(found[0][1])
            world.datagrams.sendto(b"to " + found[0][0], found[0][1])
        assert len(set(sources)) == 2
        assert [world.read(client) for client in clients] == [b"to 0", b"to 1"]
        world.udp_endpoints.replace([world.server.getsockname()], 0)
        world.udp.endpoints_changed()
        clients[0].send(b"lost")
        world.loop.run_once(0.05)
        with pytest.raises(BlockingIOError):
            world.datagrams.recv(99)
    finally:
        for client in clients:
            client.close()


def test_a_client_with_many_udp_ports_loses_its_own_oldest(world: World) -> None:
    senders = [plain("udp", "") for _ in range(4)]
    try:
        for sender in senders:
            sender.connect(world.udp_address)
            sender.send(b"x")
        for _ in range(4):
            world.loop.run_once(0.05)
        received = 0
        while True:
            try:
                world.datagrams.recv(9)
            except BlockingIOError:
                break
            received += 1
        assert received == 4
        assert len(world.udp._sessions) == 2
    finally:
        for sender in senders:
            sender.close()


def test_affinity_lasts_as_long_as_it_is_used_and_the_endpoint_is_there() -> None:
    one, other = ("10.88.0.2", 1), ("10.88.0.3", 1)
    endpoints = Endpoints([one, other], 10)
    endpoints.remember("c", other, now=100)
    assert {endpoints.choose("c", now)[0] for now in range(100, 110)} == {other}
    assert sorted(endpoints.choose("c", 105)) == [one, other]
    assert {endpoints.choose("c", 110.5)[0] for _ in range(60)} == {one, other}
    endpoints.remember("c", other, now=109)
    assert {endpoints.choose("c", 118)[0] for _ in range(60)} == {other}
    endpoints.replace([one], 10)
    assert endpoints.choose("c", 118) == [one]
    endpoints.replace([one, other], 0)
    assert {endpoints.choose("c", 118)[0] for _ in range(60)} == {one, other}


def test_a_pod_has_the_endpoints_of_its_group_and_who_is_no_pod_all() -> None:
    near, far = ("10.88.0.2", 80), ("10.88.0.3", 80)
    groups = ((("10.88.0.9",), (near,)), (("10.88.0.8",), (far,)))
    endpoints = Endpoints([near, far], 10, groups)
    assert endpoints.choose("10.88.0.9", 0) == [near]
    assert endpoints.choose("10.88.0.8", 0) == [far]
    assert endpoints.choose("10.88.0.7", 0) == [], "a node without endpoints"
    for other in ("10.88.0.1", "10.96.0.9", "127.0.0.1"):
        assert sorted(endpoints.choose(other, 0)) == [near, far]
    endpoints.replace([near, far], 10)
    assert sorted(endpoints.choose("10.88.0.7", 0)) == [near, far]
