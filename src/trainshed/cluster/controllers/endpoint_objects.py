"""Endpoints and EndpointSlice of a Service, from its pods. Pure.

Differences between the two, as upstream: Endpoints leave out pods that are being deleted (unless the Service
publishes unready addresses), slices keep them and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.pods import FINISHED, is_ready, phase

MANAGER = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
CAPACITY = 1000
"""Addresses that one object may hold (API reference); the rest is cut off and `OVER_CAPACITY` says so."""


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
    metadata = _metadata(service, {})
    if len(listed) > CAPACITY:
        metadata["annotations"] = {OVER_CAPACITY: "truncated"}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": metadata,
        "subsets": _subsets(service, listed[:CAPACITY], late),
    }


def endpoint_slice(service: Object, pods: Sequence[Object]) -> Object:
    """Return the EndpointSlice of a Service that selects `pods`."""
    labels = {SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}
    ports = [{**port, "name": port.get("name", "")} for port in _ports(service, pods)] if pods else []
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _metadata(service, labels),
        "addressType": "IPv4",
        "endpoints": [_endpoint(service, pod) for pod in pods[:CAPACITY]],
        "ports": ports,
    }


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
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "labels": {**section(metadata, "labels"), **labels},
        "ownerReferences": [controller_reference({"apiVersion": "v1", "kind": "Service", **service})],
    }


def _subsets(service: Object, pods: Sequence[Object], publish_all: bool) -> list[Object]:
    ready: list[Object] = []
    waiting: list[Object] = []
    for pod in pods:
        address = {"ip": pod["status"]["podIP"], **_where(pod)}
        if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
            address["hostname"] = pod["spec"]["hostname"]
        (ready if publish_all or is_ready(pod) else waiting).append(address)
    subset = {
        "addresses": ready,
        "notReadyAddresses": waiting,
        "ports": _ports(service, pods) if pods else [],
    }
    subset = {name: value for name, value in subset.items() if value}
    return [subset] if subset else []


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


def _ports(service: Object, pods: Sequence[Object]) -> list[Object]:
    out: list[Object] = []
    for port in service["spec"].get("ports") or ():
        entry: dict[str, Any] = {"port": target_port(port, pods), "protocol": port.get("protocol", "TCP")}
        if port.get("name"):
            entry["name"] = port["name"]
        out.append(entry)
    return out


def target_port(port: Object, pods: Sequence[Object]) -> int:
    """Return the port number that pods listen on; a named target is looked up in the first pod that has it."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for candidate in container.get("ports") or ():
                if candidate.get("name") == target:
                    return int(candidate["containerPort"])
    return int(port["port"])
