"""The cluster's DNS zone, from services, endpoints and pods. Pure.

    <service>.<namespace>.svc.<domain>              addresses of the service
    <hostname>.<subdomain>.<namespace>.svc.<domain> a pod that names a headless service as its subdomain

A service with a selector answers from the pods themselves, not from its EndpointSlices: those lag behind a
pod's readiness by another controller's turn. A service with a cluster IP answers with the addresses of its
ready pods too when each port is its own target, because nothing forwards a cluster IP; a target's name counts as
the number that the pods have for it. Otherwise, or without pods, it answers with its cluster IP. Source of names: the
DNS-Based Service Discovery specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainshed.cluster.sandbox.addresses import DOMAIN
from trainshed.cluster.sandbox.model import DnsRecords
from trainshed.kube.meta.objects import Object, objects, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished, is_ready, port_named

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


def dns_records(
    services: Iterable[Object],
    endpoint_slices: Iterable[Object],
    pods: Iterable[Object],
    *,
    domain: str = DOMAIN,
) -> DnsRecords:
    """Return every name with its addresses, and the names that have none yet."""
    by_label, by_subdomain = _index(pods)
    manual = _manual_addresses(endpoint_slices)
    found: dict[str, tuple[str, ...]] = {}
    names: set[str] = set()
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        if spec.get("type") == "ExternalName":
            continue
        namespace, name = metadata["namespace"], metadata["name"]
        fqdn = f"{name}.{namespace}.svc.{domain}"
        names.add(fqdn)
        unready = bool(spec.get("publishNotReadyAddresses"))
        selector: Mapping[str, str] = section(spec, "selector")
        if selector:
            matching = _select(by_label, namespace, selector)
            published = [pod for pod in matching if _is_published(pod, unready)]
            if (
                spec.get("clusterIP") != "None"
            ):  # one that lacks a port by name is no endpoint, as in Kubernetes
                published = [pod for pod in published if None not in _targets(spec, pod)]
            addresses = {pod["status"]["podIP"] for pod in published}
        else:
            published = []
            addresses = set(manual.get((namespace, name), ()))
        headless = spec.get("clusterIP") == "None"
        if headless or (selector and addresses and _ports_pass_through(spec, published)):
            _set(found, fqdn, addresses)
        else:
            cluster_ip = spec.get("clusterIP")
            _set(found, fqdn, {cluster_ip} if cluster_ip else set())
        if headless:
            for pod in by_subdomain.get((namespace, name), ()):
                pod_name = f"{pod['spec'].get('hostname') or pod['metadata']['name']}.{fqdn}"
                names.add(pod_name)
                if _is_published(pod, unready):
                    _set(found, pod_name, {pod["status"]["podIP"]})
    return DnsRecords(dict(sorted(found.items())), tuple(sorted(names - set(found))))


def _set(found: dict[str, tuple[str, ...]], name: str, addresses: set[str]) -> None:
    if addresses:
        found[name] = tuple(sorted(addresses, key=_address_order))


def _address_order(address: str) -> tuple[Any, ...]:
    parts = address.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() for p in parts) else (0, address)


def _index(
    pods: Iterable[Object],
) -> tuple[dict[tuple[str, str, str], list[Object]], dict[tuple[str, str], list[Object]]]:
    """Return pods by (namespace, label, value) and by (namespace, subdomain)."""
    by_label: dict[tuple[str, str, str], list[Object]] = {}
    by_subdomain: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        for label, value in section(metadata, "labels").items():
            by_label.setdefault((metadata["namespace"], label, value), []).append(pod)
        subdomain = pod["spec"].get("subdomain")
        if subdomain:
            by_subdomain.setdefault((metadata["namespace"], subdomain), []).append(pod)
    return by_label, by_subdomain


def _select(
    by_label: Mapping[tuple[str, str, str], list[Object]], namespace: str, selector: Mapping[str, str]
) -> list[Object]:
    """Return the pods with all labels of `selector`, looking through the rarest label only."""
    groups = [by_label.get((namespace, label, value), []) for label, value in selector.items()]
    return [
        pod
        for pod in min(groups, key=len)
        if all(pod["metadata"]["labels"].get(label) == value for label, value in selector.items())
    ]


def _is_published(pod: Object, unready: bool) -> bool:
    """Return whether the pod's address is given out: it has one, is not at its end, and is ready (or need not be)."""
    status = status_of(pod)
    if not status.get("podIP") or is_finished(pod):
        return False
    if unready:
        return True
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return is_ready(pod)


def _ports_pass_through(spec: Object, pods: Sequence[Object]) -> bool:
    """Return whether each port of the service is its own target in every one of these pods."""
    numbers = [port["port"] for port in objects(spec, "ports")]
    return all(_targets(spec, pod) == numbers for pod in pods)


def _targets(spec: Object, pod: Object) -> list[int | None]:
    """Return where each port of the service leads in this pod; None for a name that it does not have."""
    return [_target(port.get("targetPort") or port["port"], pod) for port in objects(spec, "ports")]


def _target(target: int | str, pod: Object) -> int | None:
    if isinstance(target, int):
        return target
    found = (port_named(container, target) for container in objects(spec_of(pod), "containers"))
    return next((number for number in found if number is not None), None)


def _manual_addresses(endpoint_slices: Iterable[Object]) -> dict[tuple[str, str], list[str]]:
    """Return ready addresses of slices by (namespace, service)."""
    out: dict[tuple[str, str], list[str]] = {}
    for item in endpoint_slices:
        metadata = item["metadata"]
        service = section(metadata, "labels").get(SERVICE_NAME_LABEL)
        if not service or item.get("addressType", "IPv4") != "IPv4":
            continue
        for endpoint in item.get("endpoints") or ():
            if section(endpoint, "conditions").get("ready", True) is not False:
                out.setdefault((metadata["namespace"], service), []).extend(endpoint.get("addresses") or ())
    return out
