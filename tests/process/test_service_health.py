"""What load balancers are told at the `healthCheckNodePort` of a Service."""

from __future__ import annotations

import asyncio
import json
import socket

from trainshed.cluster.node.backends import Backends
from trainshed.cluster.node.service_health import Health, HealthPorts, healths
from trainshed.kube.meta.objects import Object

KEY = ("default", "web")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def ask(port: int, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} /any HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    async with asyncio.timeout(10):
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, *lines = head.split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def test_endpoints_are_ready_pods_and_addresses_that_somebody_wrote() -> None:
    def pod(ip: str, ready: str) -> Object:
        conditions = [{"type": "Ready", "status": ready}]
        metadata = {"namespace": "default", "name": ip, "labels": {"app": "web"}}
        return {"metadata": metadata, "spec": {}, "status": {"podIP": ip, "conditions": conditions}}

    def service(name: str, **spec: object) -> Object:
        return {"metadata": {"namespace": "default", "name": name}, "spec": spec}

    labels = {"kubernetes.io/service-name": "manual"}
    written = {
        "metadata": {"namespace": "default", "name": "s", "labels": labels},
        "endpoints": [{"addresses": ["10.88.0.9"]}],
    }
    backends = Backends(
        [pod("10.88.0.2", "True"), pod("10.88.0.3", "True"), pod("10.88.0.4", "False")], [written]
    )
    services = [
        service("web", selector={"app": "web"}, healthCheckNodePort=30001),
        service("manual", healthCheckNodePort=30002),
        service("none", selector={"app": "web"}),
    ]
    assert healths(services, backends, healthy=True) == {
        ("default", "web"): Health(30001, 2),
        ("default", "manual"): Health(30002, 1),
    }


async def test_answers_are_those_of_kube_proxy_and_follow_what_is_known() -> None:
    ports, port, other = HealthPorts(), free_port(), free_port()
    assert await ports.update({KEY: Health(port, 2)}) == {}
    status, headers, body = await ask(port)
    assert (status, headers["Content-Type"], headers["X-Load-Balancing-Endpoint-Weight"]) == (
        200,
        "application/json",
        "2",
    )
    service = {"namespace": "default", "name": "web"}
    assert json.loads(body) == {"service": service, "localEndpoints": 2, "serviceProxyHealthy": True}
    assert body.startswith('{\n\t"service": {\n\t\t"namespace": "default",') and body.endswith("\n}")
    assert (await ask(port, "HEAD"))[::2] == (200, "")
    for health in (Health(port, 0), Health(port, 2, healthy=False)):
        await ports.update({KEY: health})
        assert (await ask(port))[0] == 503

    await ports.update({KEY: Health(other, 1)})
    assert (await ask(other))[0] == 200
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)), "closed"
    await ports.update({})
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", other)), "closed"


async def test_a_port_that_another_program_has_is_told_once_and_tried_again() -> None:
    ports = HealthPorts()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = await ports.update({KEY: Health(port, 1)})
        assert list(failed) == [KEY] and f"port {port} of 127.0.0.1: " in failed[KEY]
        assert await ports.update({KEY: Health(port, 1)}) == {} and ports.failed
    assert await ports.update({KEY: Health(port, 1)}) == {} and not ports.failed
    assert (await ask(port))[0] == 200
    await ports.update({})
