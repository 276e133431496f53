"""The cluster's DNS zone, from services and who is behind them. Pure.

    <service>.<namespace>.svc.<domain>              its cluster IP; of a headless one the addresses behind it
    <hostname>.<subdomain>.<namespace>.svc.<domain> a pod that names a headless service as its subdomain

Besides the ports that have a name, for SRV records, and what services of type ExternalName stand for.

Source of names: the DNS-Based Service Discovery specification.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node.backends import Backends, address_order, is_published
from trainshed.cluster.sandbox.addresses import DOMAIN
from trainshed.cluster.sandbox.model import DnsRecords
from trainshed.kube.meta.objects import Object, objects, section


def dns_records(services: Iterable[Object], backends: Backends, *, domain: str = DOMAIN) -> DnsRecords:
    """Return every name with its addresses, and the names that have none yet."""
    found: dict[str, tuple[str, ...]] = {}
    names: set[str] = set()
    ports: dict[str, tuple[tuple[str, str, int], ...]] = {}
    aliases: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        fqdn = f"{metadata['name']}.{metadata['namespace']}.svc.{domain}"
        if spec.get("type") == "ExternalName":
            aliases[fqdn] = str(spec.get("externalName") or "")
            continue
        names.add(fqdn)
        named = [port for port in objects(spec, "ports") if port.get("name")]
        if named:
            ports[fqdn] = tuple(_named_port(service, port, backends) for port in named)
        cluster_ip = spec.get("clusterIP")
        if cluster_ip != "None":
            _set(found, fqdn, {cluster_ip} if cluster_ip else set())
            continue
        if section(spec, "selector"):
            _set(found, fqdn, {pod["status"]["podIP"] for pod in backends.published(service)})
        else:
            _set(found, fqdn, backends.written_addresses(service))
        unready = bool(spec.get("publishNotReadyAddresses"))
        for pod in backends.named(service):
            pod_name = f"{pod['spec'].get('hostname') or pod['metadata']['name']}.{fqdn}"
            names.add(pod_name)
            if is_published(pod, unready):
                _set(found, pod_name, {pod["status"]["podIP"]})
    pending = tuple(sorted(names - set(found)))
    return DnsRecords(dict(sorted(found.items())), pending, dict(sorted(ports.items())), aliases)


def _named_port(service: Object, port: Object, backends: Backends) -> tuple[str, str, int]:
    """Return a port as clients find it: of a headless service at the pods, where it is the target's number."""
    headless = service["spec"].get("clusterIP") == "None"
    number = backends.target_number(service, port) if headless else int(port["port"])
    return port["name"], (port.get("protocol") or "TCP").lower(), number


def _set(found: dict[str, tuple[str, ...]], name: str, addresses: set[str]) -> None:
    if addresses:
        found[name] = tuple(sorted(addresses, key=address_order))
