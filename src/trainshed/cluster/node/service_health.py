"""Tells load balancers at a Service's `healthCheckNodePort` whether it has endpoints, as kube-proxy does.

The machine's loopback stands for all nodes, so the endpoints are those of all nodes. Source: `service_health.go` in
`pkg/proxy/healthcheck` of Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeAlias

import msgspec

from trainshed.cluster.node.backends import Backends
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, spec_of, status_of

Key: TypeAlias = tuple[str, str]
"""Namespace and name of a Service."""
PORT = "healthCheckNodePort"
_ADDRESS = "127.0.0.1"
_REQUEST_SECONDS = 10.0
_LONGEST_REQUEST = 16 * 1024


class Health(msgspec.Struct, frozen=True):
    """What is told of a Service, and at which port. `healthy`: its routes are in force."""

    port: int
    endpoints: int
    healthy: bool = True


def healths(services: Iterable[Object], backends: Backends, *, healthy: bool) -> dict[Key, Health]:
    """Return what is told of each Service that has a port for it. Pure."""
    found = {}
    for service in services:
        port = spec_of(service).get(PORT)
        if port:
            if section(spec_of(service), "selector"):
                addresses = {str(status_of(pod)["podIP"]) for pod in backends.published(service)}
            else:
                addresses = backends.written_addresses(service)
            found[namespace_of(service), name_of(service)] = Health(port, len(addresses), healthy)
    return found


def answer(method: str, key: Key, health: Health) -> bytes:
    """Return the HTTP response to a request of any path. Pure."""
    namespace, name = (msgspec.json.encode(part).decode() for part in key)
    body = (
        f'{{\n\t"service": {{\n\t\t"namespace": {namespace},\n\t\t"name": {name}\n\t}},\n'
        f'\t"localEndpoints": {health.endpoints},\n\t"serviceProxyHealthy": {str(health.healthy).lower()}\n}}'
    )
    status = "200 OK" if health.endpoints and health.healthy else "503 Service Unavailable"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
        f"X-Load-Balancing-Endpoint-Weight: {health.endpoints}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return (head + ("" if method == "HEAD" else body)).encode()


class HealthPorts:
    """The ports that are open. `failed` are Services whose port is not, and why."""

    def __init__(self) -> None:
        self.failed: dict[Key, str] = {}
        self._healths: Mapping[Key, Health] = {}
        self._servers: dict[Key, tuple[int, asyncio.Server]] = {}

    async def update(self, wanted: Mapping[Key, Health]) -> dict[Key, str]:
        """Tell this from now on, and nothing else; return what failed and did not before."""
        before, self.failed = self.failed, {}
        self._healths = wanted
        for key, (port, server) in list(self._servers.items()):
            if key not in wanted or wanted[key].port != port:
                server.close()
                del self._servers[key]
        for key, health in wanted.items():
            if key not in self._servers:
                serve = partial(self._serve, key)
                try:
                    server = await asyncio.start_server(serve, _ADDRESS, health.port, limit=_LONGEST_REQUEST)
                except OSError as error:
                    self.failed[key] = f"port {health.port} of {_ADDRESS}: {error.strerror or error}"
                    continue
                self._servers[key] = health.port, server
        return {key: why for key, why in self.failed.items() if before.get(key) != why}

    async def _serve(self, key: Key, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                health = self._healths.get(key)
                if health is not None:
                    writer.write(answer(head.partition(b" ")[0].decode("latin-1"), key, health))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks so gets no answer
        finally:
            writer.close()
