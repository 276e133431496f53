"""The cluster's DNS zone, from services and who is behind them. Pure.

    <service>.<namespace>.svc.<domain>              its cluster IP; of a headless one the addresses behind it
    <hostname>.<subdomain>.<namespace>.svc.<domain> a pod that names a headless service as its subdomain

Besides the ports that have a name, for SRV records, and what services of type ExternalName stand for.

Source of names: the DNS-Based Service Discovery specification.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trainshed.cluster.node.backends import Backends, Behind, address_order, is_published
from trainshed.cluster.sandbox.addresses import DOMAIN
from trainshed.cluster.sandbox.model import DnsRecords
from trainshed.kube.meta.objects import Object, objects, section


class _Part(NamedTuple):
    """What one service puts into the zone."""

    found: dict[str, tuple[str, ...]]
    names: tuple[str, ...] = ()
    ports: tuple[tuple[str, str, int], ...] = ()
    alias: str | None = None


class Zone:
    """Makes records, and keeps what it made of each service until that or who is behind it changes: of thousands of
    services few change between two looks."""

    def __init__(self, domain: str = DOMAIN) -> None:
        self._domain = domain
        self._held: dict[str, tuple[Object, Behind, _Part]] = {}

    def records(self, services: Iterable[Object], backends: Backends) -> DnsRecords:
        """Return every name with its addresses, and the names that have none yet."""
        found: dict[str, tuple[str, ...]] = {}
        names: set[str] = set()
        ports: dict[str, tuple[tuple[str, str, int], ...]] = {}
        aliases: dict[str, str] = {}
        held, self._held = self._held, {}
        for service in services:
            metadata = service["metadata"]
            fqdn = f"{metadata['name']}.{metadata['namespace']}.svc.{self._domain}"
            behind = backends.behind(service)
            before = held.get(fqdn)
            if before is not None and before[0] is service and before[1] == behind:
                part = before[2]
            else:
                part = _part(service, fqdn, backends)
                before = (service, behind, part)
            self._held[fqdn] = before
            if part.alias is not None:
                aliases[fqdn] = part.alias
                continue
            names.update(part.names)
            found.update(part.found)
            if part.ports:
                ports[fqdn] = part.ports
        pending = tuple(sorted(names.difference(found)))
        return DnsRecords(dict(sorted(found.items())), pending, dict(sorted(ports.items())), aliases)


def _part(service: Object, fqdn: str, backends: Backends) -> _Part:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return _Part({}, alias=str(spec.get("externalName") or ""))
    found: dict[str, tuple[str, ...]] = {}
    names = [fqdn]
    named = [port for port in objects(spec, "ports") if port.get("name")]
    ports = tuple(_named_port(service, port, backends) for port in named)
    cluster_ip = spec.get("clusterIP")
    if cluster_ip != "None":
        _set(found, fqdn, {cluster_ip} if cluster_ip else set())
        return _Part(found, (fqdn,), ports)
    if section(spec, "selector"):
        _set(found, fqdn, {pod["status"]["podIP"] for pod in backends.published(service)})
    else:
        _set(found, fqdn, backends.written_addresses(service))
    unready = bool(spec.get("publishNotReadyAddresses"))
    for pod in backends.named(service):
        pod_name = f"{pod['spec'].get('hostname') or pod['metadata']['name']}.{fqdn}"
        names.append(pod_name)
        if is_published(pod, unready):
            _set(found, pod_name, {pod["status"]["podIP"]})
    return _Part(found, tuple(names), ports)


def _named_port(service: Object, port: Object, backends: Backends) -> tuple[str, str, int]:
    """Return a port as clients find it: of a headless service at the pods, where it is the target's number."""
    headless = service["spec"].get("clusterIP") == "None"
    number = backends.target_number(service, port) if headless else int(port["port"])
    return port["name"], (port.get("protocol") or "TCP").lower(), number


def _set(found: dict[str, tuple[str, ...]], name: str, addresses: set[str]) -> None:
    if addresses:
        found[name] = tuple(sorted(addresses, key=address_order))
