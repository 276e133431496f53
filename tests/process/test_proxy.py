"""The pods' HTTP proxy on loopback: what it leads to, and what it refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from trainshed.cluster.sandbox.addresses import DNS_PORT, PROXY_PORT
from trainshed.cluster.sandbox.loop import Loop
from trainshed.cluster.sandbox.net.inside import Inside
from trainshed.cluster.sandbox.net.proxy import Proxy
from trainshed.cluster.sandbox.net.zone import Zone

NAMES = {
    "web.default.svc.cluster.local": ("10.88.0.2",),
    "two.default.svc.cluster.local": ("10.88.0.66", "10.88.0.2"),
    "kubernetes.default.svc.cluster.local": ("10.96.0.1",),
    "mapped.default.svc.cluster.local": ("10.96.7.7",),
    "loopback.default.svc.cluster.local": ("127.0.0.1",),
    "octal.default.svc.cluster.local": ("0177.0.0.1",),
    "six.default.svc.cluster.local": ("::ffff:127.0.0.1",),
    "metadata.default.svc.cluster.local": ("169.254.169.254",),
    "alias.default.svc.cluster.local": ("localhost",),
}


class FakeNetwork(Inside):
    """The cluster network as one server on loopback that every address but one leads to; all clients are in
    namespace `default`."""

    def __init__(self, port: int) -> None:
        super().__init__("/nonexistent", "/nonexistent", list)
        self.zone = Zone(NAMES, ("slow.default.svc.cluster.local",))
        self.dialled: list[tuple[str, int]] = []
        self._port = port

    def namespace(self, client: str) -> str:
        return "default"

    def dial(self, address: str, port: int, timeout: float) -> socket.socket:
        self.dialled.append((address, port))
        if address == "10.88.0.66":
            raise ConnectionRefusedError(111, "Connection refused")
        return socket.create_connection(("127.0.0.1", self._port), timeout)


class Running:
    """A proxy on loopback, and what it leads to."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.network = FakeNetwork(self.server.getsockname()[1])
        self.loop = Loop()
        Proxy(self.loop, self.listener, self.network)

    def ask(self, request: str) -> str:
        """Return all that the proxy answers to a request head."""
        with socket.create_connection(self.listener.getsockname(), 10) as client:
            self.loop.run_once(10)
            client.settimeout(10)
            client.sendall(request.encode() + b"\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(4096), b"")).decode()

    def serve_one(self) -> None:
        connection, _ = self.server.accept()
        with connection:
            while connection.recv(4096):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nfrom the pod")


@pytest.fixture
def running() -> Iterator[Running]:
    one = Running()
    yield one
    one.loop.close()
    one.listener.close()
    one.server.close()


@pytest.mark.parametrize(
    ("host", "dialled"),
    [
        ("web:8000", [("10.88.0.2", 8000)]),
        ("web.default:8000", [("10.88.0.2", 8000)]),
        ("web.default.svc:8000", [("10.88.0.2", 8000)]),
        ("10.88.0.9:8000", [("10.88.0.9", 8000)]),
        ("[::ffff:10.88.0.9]:8000", [("10.88.0.9", 8000)]),
        ("two:8000", [("10.88.0.66", 8000), ("10.88.0.2", 8000)]),
        ("kubernetes.default:443", [("10.96.0.1", 443)]),
        ("10.96.0.1:443", [("10.96.0.1", 443)]),
        ("10.96.7.7:80", [("10.96.7.7", 80)]),
        ("mapped:80", [("10.96.7.7", 80)]),
        # Where pods with hostNetwork are: dialled in the cluster's network, where nothing of this machine listens.
        ("10.88.0.1:8000", [("10.88.0.1", 8000)]),
        ("173539329:8000", [("10.88.0.1", 8000)]),
        ("[::ffff:10.88.0.1]:8000", [("10.88.0.1", 8000)]),
    ],
)
@pytest.mark.parametrize("request_line", ["CONNECT {} HTTP/1.0", "GET http://{}/ HTTP/1.1"])
def test_what_pods_reach_by_themselves_is_reached_through_the_proxy(
    running: Running, host: str, dialled: list[tuple[str, int]], request_line: str
) -> None:
    serving = threading.Thread(target=running.serve_one, daemon=True)
    serving.start()
    answer = running.ask(request_line.format(host))
    assert answer.endswith("HTTP/1.1 200 OK\r\n\r\nfrom the pod"), answer
    assert running.network.dialled == dialled
    serving.join(10)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 403),
        ("127.1", 403),
        ("2130706433", 403),
        ("0x7f000001", 403),
        ("0177.0.0.1", 403),
        ("0", 403),
        ("localhost", 403),
        ("LOCALHOST", 403),
        ("[::1]", 403),
        ("[::]", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("[::ffff:7f00:1]", 403),
        ("169.254.169.254", 403),
        ("[fe80::1]", 403),
        ("loopback", 403),
        ("octal", 403),
        ("six", 403),
        ("metadata", 403),
        ("alias", 502),  # a record that is no address is not looked up again
        ("slow", 502),
        ("nobody.default.svc.cluster.local", 502),
    ],
)
@pytest.mark.parametrize("request_line", ["CONNECT {} HTTP/1.1", "GET http://{}/ HTTP/1.1"])
def test_no_spelling_and_no_record_leads_to_this_machine(
    running: Running, host: str, status: int, request_line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.cluster.sandbox.net.inside.HOLD", 0.0)
    open_port = f"{host}:{running.server.getsockname()[1]}"
    answer = running.ask(request_line.format(open_port))
    assert answer.startswith(f"HTTP/1.1 {status} "), answer
    assert running.network.dialled == []


@pytest.mark.parametrize("host", ["10.88.0.1", "173539329", "[::ffff:10.88.0.1]"])
@pytest.mark.parametrize("port", [DNS_PORT, PROXY_PORT])
def test_the_clusters_own_ports_are_refused(running: Running, host: str, port: int) -> None:
    assert running.ask(f"CONNECT {host}:{port} HTTP/1.1").startswith("HTTP/1.1 403 ")
    assert running.network.dialled == []


def test_a_name_that_is_about_to_have_an_address_is_waited_for(running: Running) -> None:
    serving = threading.Thread(target=running.serve_one, daemon=True)
    serving.start()
    zone = Zone({"slow.default.svc.cluster.local": ("10.88.0.3",)}, ())
    threading.Timer(0.2, lambda: setattr(running.network, "zone", zone)).start()
    assert "from the pod" in running.ask("CONNECT slow:80 HTTP/1.1")
    assert running.network.dialled == [("10.88.0.3", 80)]
    serving.join(10)
