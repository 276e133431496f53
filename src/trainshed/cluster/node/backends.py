"""Who is behind each Service: its pods, or the endpoints that somebody wrote. Pure.

A Service with a selector is read off the pods themselves, not off its EndpointSlices: those lag behind a pod's
readiness by another controller's turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address
from typing import Any, TypeAlias

from trainshed.cluster.sandbox.addresses import MACHINE
from trainshed.kube.meta.objects import Object, objects, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished, is_ready, port_named

SERVICE_NAME_LABEL = "kubernetes.io/service-name"

Endpoint: TypeAlias = tuple[str, int]
"""IP address and port."""
Behind: TypeAlias = tuple[list[Object], list[Object], list[Object]]
"""Of a Service the pods that it selects, those that it is the subdomain of, and the slices that users wrote."""


class Backends:
    """One state of pods and of the slices that users wrote."""

    def __init__(self, pods: Iterable[Object], slices: Iterable[Object]) -> None:
        self.pods = list(pods)
        self._by_label: dict[tuple[str, str, str], list[Object]] = {}
        self._by_subdomain: dict[tuple[str, str], list[Object]] = {}
        for pod in self.pods:
            metadata = pod["metadata"]
            for label, value in section(metadata, "labels").items():
                self._by_label.setdefault((metadata["namespace"], label, value), []).append(pod)
            subdomain = pod["spec"].get("subdomain")
            if subdomain:
                self._by_subdomain.setdefault((metadata["namespace"], subdomain), []).append(pod)
        self._slices: dict[tuple[str, str], list[Object]] = {}
        for item in slices:
            metadata = item["metadata"]
            name = section(metadata, "labels").get(SERVICE_NAME_LABEL)
            if name and item.get("addressType", "IPv4") == "IPv4":
                self._slices.setdefault((metadata["namespace"], name), []).append(item)

    def behind(self, service: Object) -> Behind:
        """Return all that decides over a Service's names and endpoints, but itself."""
        return self._selected(service), self.named(service), self._written(service)

    def published(self, service: Object) -> list[Object]:
        """Return the pods whose addresses a Service with a selector gives out."""
        unready = bool(spec_of(service).get("publishNotReadyAddresses"))
        return [pod for pod in self._selected(service) if is_published(pod, unready)]

    def named(self, service: Object) -> list[Object]:
        """Return the pods that have names of their own below the Service's: it is their subdomain."""
        metadata = service["metadata"]
        return self._by_subdomain.get((metadata["namespace"], metadata["name"]), [])

    def written_addresses(self, service: Object) -> set[str]:
        """Return the ready addresses that a user wrote."""
        return {
            address
            for item in self._written(service)
            for endpoint in _ready(item)
            for address in endpoint.get("addresses") or ()
        }

    def endpoints(self, service: Object, port: Object) -> tuple[Endpoint, ...]:
        """Return where one port of the Service leads, in order. While nobody is ready, those that still serve while
        they end (KEP-1669)."""
        if section(spec_of(service), "selector"):
            pods = self.published(service) or [pod for pod in self._selected(service) if _is_draining(pod)]
            found = {(_place(pod), number) for pod in pods if (number := target(port, pod)) is not None}
        else:
            found = set(self._written_endpoints(service, port.get("name") or ""))
        return _in_order(found)

    def endpoints_by_node(self, service: Object, port: Object) -> dict[str, tuple[Endpoint, ...]]:
        """Return where one port of the Service leads on each node, in order: as `endpoints`, of each by itself.

        What a user wrote is of the node that he names; without one it is of none (pkg/proxy/topology.go).
        """
        found: dict[str, set[Endpoint]] = {}
        unready = bool(spec_of(service).get("publishNotReadyAddresses"))
        pods: dict[str, list[Object]] = {}
        for pod in self._selected(service):
            pods.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
        for node, those in pods.items():
            serving = [one for one in those if is_published(one, unready)] or [
                one for one in those if _is_draining(one)
            ]
            found[node] = {
                (_place(one), number) for one in serving if (number := target(port, one)) is not None
            }
        if not section(spec_of(service), "selector"):
            written = [one for item in self._written(service) for one in objects(item, "endpoints")]
            for node in {one.get("nodeName") or "" for one in written}:
                found[node] = set(self._written_endpoints(service, port.get("name") or "", node))
        return {node: _in_order(those) for node, those in sorted(found.items()) if node and those}

    def target_number(self, service: Object, port: Object) -> int:
        """Return the number of a port as its endpoints have it, as far as one number can tell."""
        endpoints = self.endpoints(service, port)
        return endpoints[0][1] if endpoints else int(port["port"])

    def _selected(self, service: Object) -> list[Object]:
        """Return the pods with all labels of the selector, looking through the rarest label only."""
        namespace = service["metadata"]["namespace"]
        selector: Mapping[str, str] = section(spec_of(service), "selector")
        if not selector:
            return []
        groups = [self._by_label.get((namespace, label, value), []) for label, value in selector.items()]
        return [
            pod
            for pod in min(groups, key=len)
            if all(pod["metadata"]["labels"].get(label) == value for label, value in selector.items())
        ]

    def _written(self, service: Object) -> list[Object]:
        metadata = service["metadata"]
        return self._slices.get((metadata["namespace"], metadata["name"]), [])

    def _written_endpoints(self, service: Object, name: str, node: str = "") -> Iterator[Endpoint]:
        """Yield what a user wrote for a port; with `node` of that one alone."""
        for item in self._written(service):
            numbers = [one.get("port") for one in item.get("ports") or () if (one.get("name") or "") == name]
            if not numbers:
                continue
            if node:
                those = [one for one in objects(item, "endpoints") if one.get("nodeName") == node]
                item = {**item, "endpoints": those}
            for endpoint in _ready(item) or _serving(item):
                for address in endpoint.get("addresses") or ():
                    yield from ((address, number) for number in numbers if number)


def is_published(pod: Object, unready: bool) -> bool:
    """Return whether the pod's address is given out: it has one, is not at its end, and is ready (or need not be)."""
    if not status_of(pod).get("podIP") or is_finished(pod):
        return False
    if unready:
        return True
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _in_order(found: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    return tuple(sorted(found, key=lambda one: (address_order(one[0]), one[1])))


def concerns(service: Object, pod: Object) -> bool:
    """Return whether the pod, of the Service's namespace, may be behind it, or have a name below its own."""
    metadata, spec = pod["metadata"], spec_of(service)
    if pod["spec"].get("subdomain") == service["metadata"]["name"]:
        return True
    selector, labels = section(spec, "selector"), section(metadata, "labels")
    return bool(selector) and all(labels.get(label) == value for label, value in selector.items())


def target(port: Object, pod: Object) -> int | None:
    """Return where a port of a Service leads in this pod; None for a name that it does not have."""
    wanted = port.get("targetPort") or port["port"]
    if isinstance(wanted, int):
        return wanted
    if wanted.isdigit():
        return int(wanted)
    found = (port_named(container, wanted) for container in objects(spec_of(pod), "containers"))
    return next((number for number in found if number is not None), None)


def _place(pod: Object) -> str:
    """Return where a Service reaches the pod: its address, but for one on the machine's network."""
    return MACHINE if spec_of(pod).get("hostNetwork") else str(pod["status"]["podIP"])


def address_order(address: str) -> Any:
    """Return a key that sorts IPv4 addresses by number."""
    try:
        return int(IPv4Address(address)), ""
    except ValueError:
        return -1, address


def _is_draining(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) and is_published({**pod, "metadata": {}}, False)


def _ready(item: Object) -> list[Object]:
    return [one for one in objects(item, "endpoints") if section(one, "conditions").get("ready") is not False]


def _serving(item: Object) -> list[Object]:
    conditions = [(one, section(one, "conditions")) for one in objects(item, "endpoints")]
    return [one for one, has in conditions if has.get("serving") and has.get("terminating")]
