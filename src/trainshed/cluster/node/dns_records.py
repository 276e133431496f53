"""The cluster's DNS zone, from services and who is behind them. Pure.

    <service>.<namespace>.svc.<domain>              its cluster IP; of a headless one the addresses behind it
    <hostname>.<subdomain>.<namespace>.svc.<domain> a pod that names a headless service as its subdomain

Source of names: the DNS-Based Service Discovery specification.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node.backends import Backends, address_order, is_published
from trainshed.cluster.sandbox.addresses import DOMAIN
from trainshed.cluster.sandbox.model import DnsRecords
from trainshed.kube.meta.objects import Object, section


def dns_records(services: Iterable[Object], backends: Backends, *, domain: str = DOMAIN) -> DnsRecords:
    """Return every name with its addresses, and the names that have none yet."""
    found: dict[str, tuple[str, ...]] = {}
    names: set[str] = set()
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        if spec.get("type") == "ExternalName":
            continue
        fqdn = f"{metadata['name']}.{metadata['namespace']}.svc.{domain}"
        names.add(fqdn)
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
    return DnsRecords(dict(sorted(found.items())), tuple(sorted(names - set(found))))


def _set(found: dict[str, tuple[str, ...]], name: str, addresses: set[str]) -> None:
    if addresses:
        found[name] = tuple(sorted(addresses, key=address_order))
