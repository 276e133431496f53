"""Where the addresses and ports of Services lead, and ports of the machine. Pure.

    cluster IP : port                  of every Service but headless ones
    127.0.0.1  : nodePort              NodePort, LoadBalancer
    127.0.0.1  : port                  LoadBalancer: this machine is its balancer
    127.0.0.1 (hostIP) : hostPort      pods
    10.88.0.1  : nodePort, hostPort    the same for pods: the node's address
    10.88.0.1  : containerPort         pods with hostNetwork, whose address it is

With `internalTrafficPolicy: Local` a cluster IP leads a pod to endpoints of its own node. The machine's loopback stands
for all nodes, and so do processes in the cluster's network that are no pods. `externalTrafficPolicy: Local` has no
effect on routes: kube-proxy, too, leads pods, and processes of the node itself, to all endpoints.

Nothing is opened beyond the machine's loopback. Of two that want one port of the machine the first by name has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from trainshed.cluster.node.backends import Backends
from trainshed.cluster.sandbox.addresses import API_ADDRESS, DNS_PORT, GATEWAY, MACHINE, PROXY_PORT
from trainshed.cluster.sandbox.model import Group, Place, Route
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished, is_sidecar

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what manifests say
DEFAULT_AFFINITY_SECONDS = 10_800
PROTOCOLS = ("TCP", "UDP")
_NOWHERE = (None, "", "None", API_ADDRESS)
"""Cluster IPs that lead nowhere from here."""


class Routing(msgspec.Struct, frozen=True):
    """Every route, and whose each port of the machine is: a Service or a pod."""

    routes: tuple[Route, ...] = ()
    owners: dict[Place, Object] = {}
    refused: tuple[tuple[Place, Object, Object], ...] = ()
    """Ports of the machine that two want: the place, who does not get it, who has it."""


def is_local(service: Object) -> bool:
    """Return whether a pod is led to endpoints of its own node alone."""
    return spec_of(service).get("internalTrafficPolicy") == "Local"


def routing(
    services: Iterable[Object], backends: Backends, clients: Mapping[str, Collection[str]] = {}
) -> Routing:
    """Return where everything leads. `clients` are the addresses of all pods, by their node."""
    routes: dict[Place, Route] = {}
    owners: dict[Place, Object] = {}
    refused: list[tuple[Place, Object, Object]] = []
    routed = [service for service in services if spec_of(service).get("clusterIP") not in _NOWHERE]
    ordered = sorted(routed, key=lambda service: (service["metadata"]["namespace"], name_of(service)))
    wanted = [(service, route) for service in ordered for route in _of_service(service, backends, clients)]
    wanted += [(pod, route) for pod in backends.pods for route in _of_pod(pod)]
    for owner, route in wanted:
        if not route.host:
            routes.setdefault(route.place, route)
        elif route.place in owners:
            if owners[route.place] is not owner:
                refused.append((route.place, owner, owners[route.place]))
        else:
            owners[route.place] = owner
            routes[route.place] = route
    return Routing(tuple(routes[place] for place in sorted(routes)), owners, tuple(refused))


def has_routes(pod: Object) -> bool:
    """Return whether ports of the machine or of its node lead to the pod."""
    return any(True for _ in _of_pod(pod))


def host_ip(port: Object) -> str | None:
    """Return the address of the machine at which a pod's `hostPort` is opened; None for one that is not opened."""
    wanted = port.get("hostIP") or ""
    if wanted in EVERYWHERE:
        return LOOPBACK
    return wanted if wanted.startswith("127.") else None


def ingress(service: Object, routes: Routing, unopened: Collection[Place]) -> list[Object]:
    """Return where a LoadBalancer is reached, as its status says it: nowhere while a port of its is not open.

    `unopened` are ports of the machine that could not be had.
    """
    spec = spec_of(service)
    if spec.get("type") != "LoadBalancer":
        return []
    identity = _identity(service)
    ports = [port for port in objects(spec, "ports") if (port.get("protocol") or "TCP") in PROTOCOLS]
    places = [((port.get("protocol") or "TCP").lower(), LOOPBACK, port["port"]) for port in ports]
    for place in places:
        owner = routes.owners.get(place)
        if owner is None or _identity(owner) != identity or place in unopened:
            return []
    return [{"ip": LOOPBACK, "ipMode": "Proxy"}] if places else []


def _identity(obj: Object) -> tuple[str, str, bool]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"], "containers" in obj["spec"]


def _of_service(
    service: Object, backends: Backends, clients: Mapping[str, Collection[str]]
) -> Iterator[Route]:
    spec = spec_of(service)
    ip = spec.get("clusterIP") or ""
    if spec.get("type") == "ExternalName" or ip in _NOWHERE:
        return
    affinity = 0
    if spec.get("sessionAffinity") == "ClientIP":
        config = section(spec, "sessionAffinityConfig", "clientIP")
        affinity = int(config.get("timeoutSeconds") or DEFAULT_AFFINITY_SECONDS)
    for port in objects(spec, "ports"):
        protocol = port.get("protocol") or "TCP"
        if protocol not in PROTOCOLS:
            continue
        endpoints = backends.endpoints(service, port)
        route = Route(
            protocol=protocol.lower(),
            ip=ip,
            port=port["port"],
            endpoints=endpoints,
            affinity_seconds=affinity,
        )
        if endpoints and is_local(service):
            groups = tuple(
                Group(tuple(sorted(clients[node])), found)
                for node, found in backends.endpoints_by_node(service, port).items()
                if clients.get(node)
            )
            if groups:
                yield msgspec.structs.replace(route, groups=groups)
        elif endpoints:
            yield route
        if spec.get("type") in ("NodePort", "LoadBalancer") and port.get("nodePort"):
            yield msgspec.structs.replace(route, ip=LOOPBACK, port=port["nodePort"], host=True)
            if endpoints:
                yield msgspec.structs.replace(route, ip=GATEWAY, port=port["nodePort"])
        if spec.get("type") == "LoadBalancer":
            yield msgspec.structs.replace(route, ip=LOOPBACK, host=True)


def _of_pod(pod: Object) -> Iterator[Route]:
    ip = status_of(pod).get("podIP")
    if not ip or is_finished(pod):
        return
    if spec_of(pod).get("hostNetwork"):
        yield from _of_machine_pod(pod, ip)
        return
    for port in _host_ports(pod):
        address, protocol = host_ip(port), port.get("protocol") or "TCP"
        if address is not None and protocol in PROTOCOLS:
            endpoints = ((ip, int(port["containerPort"])),)
            route = Route(
                protocol=protocol.lower(), ip=address, port=port["hostPort"], endpoints=endpoints, host=True
            )
            yield route
            if (port.get("hostIP") or "") in EVERYWHERE and route.port not in (DNS_PORT, PROXY_PORT):
                yield msgspec.structs.replace(route, ip=GATEWAY, host=False)


def _of_machine_pod(pod: Object, ip: str) -> Iterator[Route]:
    """Yield routes from the node's address, which the pod has, to the machine's own network, where it listens."""
    if ip != GATEWAY:
        return
    for port in _ports(pod):
        number, protocol = int(port["containerPort"]), port.get("protocol") or "TCP"
        if protocol in PROTOCOLS and number not in (DNS_PORT, PROXY_PORT):
            yield Route(protocol=protocol.lower(), ip=ip, port=number, endpoints=((MACHINE, number),))


def _host_ports(pod: Object) -> Iterator[Object]:
    return (port for port in _ports(pod) if port.get("hostPort"))


def _ports(pod: Object) -> Iterator[Object]:
    spec = spec_of(pod)
    sidecars = [one for one in objects(spec, "initContainers") if is_sidecar(one)]
    for container in (*objects(spec, "containers"), *sidecars):
        yield from objects(container, "ports")
