"""Endpoints and EndpointSlices of a Service, from its pods, or from Endpoints that a user wrote. Pure.

Differences between the two, as upstream: Endpoints leave out pods that are being deleted (unless the Service
publishes unready addresses), slices keep them and say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias

from trainshed.kube.meta.objects import Object, objects, section, status_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.pods import FINISHED, is_ready, phase, port_named

MANAGER = "endpointslice-controller.k8s.io"
MIRROR = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_HEADLESS = "service.kubernetes.io/headless"
_ENDPOINTS_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_NOT_MIRRORED = ("endpoints.kubernetes.io/last-change-trigger-time", OVER_CAPACITY)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CAPACITY = 1000
"""Addresses that one object may hold (API reference); the rest is cut off and `OVER_CAPACITY` says so."""


Port: TypeAlias = tuple[str, str, int]
"""Name, protocol, number."""


def is_managed(service: Object | None) -> bool:
    """Return whether the Service's endpoints are made from pods."""
    if service is None or service["metadata"].get("deletionTimestamp"):
        return False
    return bool(service["spec"].get("selector")) and service["spec"].get("type") != "ExternalName"


def selected(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return those of `pods` that the Service selects, that have an address and still run, by name."""
    wanted: dict[str, str] = section(service["spec"], "selector")
    namespace = service["metadata"]["namespace"]
    found = [
        pod
        for pod in pods
        if wanted
        and pod["metadata"]["namespace"] == namespace
        and status_of(pod).get("podIP")
        and phase(pod) not in FINISHED
        and wanted.items() <= section(pod["metadata"], "labels").items()
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def endpoints(service: Object, pods: Sequence[Object]) -> Object:
    """Return the Endpoints of a Service that selects `pods`."""
    late = bool(service["spec"].get("publishNotReadyAddresses"))
    listed = [pod for pod in pods if late or not pod["metadata"].get("deletionTimestamp")]
    metadata = _metadata(service, {_ENDPOINTS_MANAGED_BY: "endpoint-controller"})
    if len(listed) > CAPACITY:
        metadata["annotations"] = {OVER_CAPACITY: "truncated"}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": metadata,
        "subsets": _subsets(service, listed[:CAPACITY], late),
    }


def endpoint_slices(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the EndpointSlices of a Service that selects `pods`: one, named like it, unless the name of a port means
    different numbers in them."""
    labels = {SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}
    out: list[Object] = []
    for ports, group in _by_ports(service, pods) or [((), [])]:
        metadata = _metadata(service, labels)
        if out:
            metadata["name"] = f"{metadata['name']}-{_digest(ports)}"
        out.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": metadata,
                "addressType": "IPv4",
                "endpoints": [_endpoint(service, pod) for pod in group[:CAPACITY]],
                "ports": [_port(port, named=True) for port in ports],
            }
        )
    return out


def mirrored_slices(service: Object, written: Object) -> list[Object]:
    """Return the EndpointSlices of a Service without a selector whose Endpoints a user wrote: one for each subset.

    None for those labelled to be left alone (KEP-1412).
    """
    metadata = written["metadata"]
    if section(metadata, "labels").get(SKIP_MIRROR) == "true" or is_managed(service):
        return []
    labels = {**section(metadata, "labels"), SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MIRROR}
    owner = controller_reference({"apiVersion": "v1", "kind": "Endpoints", **written})
    notes = {
        name: text
        for name, text in section(metadata, "annotations").items()
        if name not in (*_NOT_MIRRORED, _LAST_APPLIED)
    }
    out: dict[str, Object] = {}
    for subset in objects(written, "subsets"):
        ports = tuple(
            (port.get("name") or "", port.get("protocol") or "TCP", int(port["port"]))
            for port in objects(subset, "ports")
        )
        name = f"{metadata['name']}-{_digest(ports)}"
        endpoints = [
            _written_endpoint(address, ready=field == "addresses")
            for field in ("addresses", "notReadyAddresses")
            for address in objects(subset, field)
        ]
        whole = out.setdefault(
            name,
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "namespace": metadata["namespace"],
                    "name": name,
                    "labels": labels,
                    **({"annotations": notes} if notes else {}),
                    "ownerReferences": [owner],
                },
                "addressType": "IPv4",
                "endpoints": [],
                "ports": [_port(port, named=True) for port in ports],
            },
        )
        whole["endpoints"] = [*whole["endpoints"], *endpoints][:CAPACITY]
    return list(out.values())


def same(existing: Object, desired: Object) -> bool:
    """Return whether `existing` says what `desired` does; other labels and annotations do not matter."""
    have, want = existing["metadata"], desired["metadata"]
    if have.get("ownerReferences") != want["ownerReferences"]:
        return False
    for field in ("labels", "annotations"):
        if not section(want, field).items() <= section(have, field).items():
            return False
    return all((existing.get(f) or []) == desired.get(f, []) for f in ("subsets", "endpoints", "ports"))


def updated(existing: Object, desired: Object) -> Object:
    """Return `desired` as a replacement of `existing`: other labels and annotations stay."""
    have, want = existing["metadata"], desired["metadata"]
    metadata = {**have, "ownerReferences": want["ownerReferences"]}
    for field in ("labels", "annotations"):
        merged = {**section(have, field), **section(want, field)}
        if field == "annotations" and OVER_CAPACITY not in section(want, field):
            merged.pop(OVER_CAPACITY, None)
        if merged:
            metadata[field] = merged
    return {**desired, "metadata": metadata}


def _metadata(service: Object, labels: dict[str, str]) -> Object:
    metadata = service["metadata"]
    headless = {_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "labels": {**section(metadata, "labels"), **labels, **headless},
        "ownerReferences": [controller_reference({"apiVersion": "v1", "kind": "Service", **service})],
    }


def _subsets(service: Object, pods: Sequence[Object], publish_all: bool) -> list[Object]:
    subsets = []
    for ports, group in _by_ports(service, pods):
        ready: list[Object] = []
        waiting: list[Object] = []
        for pod in group:
            address = {"ip": pod["status"]["podIP"], **_where(pod)}
            if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
                address["hostname"] = pod["spec"]["hostname"]
            (ready if publish_all or is_ready(pod) else waiting).append(address)
        subset = {
            "addresses": ready,
            "notReadyAddresses": waiting,
            "ports": [_port(port, named=False) for port in ports],
        }
        # A pod that has none of the ports is behind none of them.
        if ports or not service["spec"].get("ports"):
            subsets.append({name: value for name, value in subset.items() if value})
    return subsets


def _written_endpoint(address: Object, *, ready: bool) -> Object:
    kept = {field: address[field] for field in ("hostname", "nodeName", "targetRef") if address.get(field)}
    return {"addresses": [address["ip"]], "conditions": {"ready": ready}, **kept}


def _endpoint(service: Object, pod: Object) -> Object:
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    ready = is_ready(pod)
    publish_all = bool(service["spec"].get("publishNotReadyAddresses"))
    out: dict[str, Any] = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": publish_all or (ready and not terminating),
            "serving": ready,
            "terminating": terminating,
        },
        **_where(pod),
    }
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
        out["hostname"] = pod["spec"]["hostname"]
    return out


def _where(pod: Object) -> dict[str, Any]:
    metadata = pod["metadata"]
    reference = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    node = pod["spec"].get("nodeName")
    return {**({"nodeName": node} if node else {}), "targetRef": reference}


def _by_ports(service: Object, pods: Sequence[Object]) -> list[tuple[tuple[Port, ...], list[Object]]]:
    """Return the pods by the ports that the Service has in them, in the order of the ports."""
    groups: dict[tuple[Port, ...], list[Object]] = {}
    for pod in pods:
        ports = tuple(
            (port.get("name") or "", port.get("protocol") or "TCP", number)
            for port in objects(service["spec"], "ports")
            if (number := target_port(port, pod)) is not None
        )
        groups.setdefault(ports, []).append(pod)
    return sorted(groups.items(), key=lambda group: group[0])


def _port(port: Port, *, named: bool) -> Object:
    """Return a port; slices have an empty name where Endpoints have none."""
    name, protocol, number = port
    return {"port": number, "protocol": protocol, **({"name": name} if name or named else {})}


def _digest(ports: tuple[Port, ...]) -> str:
    return hashlib.sha256(repr(ports).encode()).hexdigest()[:5]


def target_port(port: Object, pod: Object) -> int | None:
    """Return the port number that the pod listens on; None for a name that none of its containers has."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    if target.isdigit():
        return int(target)
    found = (port_named(container, target) for container in objects(pod["spec"], "containers"))
    return next((number for number in found if number is not None), None)
