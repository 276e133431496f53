"""Endpoints and EndpointSlices of Services: pure builders and the loop that applies them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.cluster.controllers.informers import SharedInformers, key_of
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import ENDPOINTS, ENDPOINTSLICES, PODS, SERVICES, Object
from trainshed.kube.selectors import LabelSelector

MANAGER = "endpointslice-controller.k8s.io"


def selected(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the service's pods that have an address and still run, by name."""
    selector = service["spec"].get("selector")
    if not selector:
        return []
    wanted = LabelSelector.from_object({"matchLabels": selector})
    namespace = service["metadata"]["namespace"]
    found = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and (pod.get("status") or {}).get("podIP")
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and wanted.matches(pod["metadata"].get("labels") or {})
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def is_ready(pod: Object) -> bool:
    """Return whether the pod's Ready condition is true."""
    return any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in (pod.get("status") or {}).get("conditions") or ()
    )


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


def subsets(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the `subsets` of the Service's Endpoints."""
    publish_all = bool(service["spec"].get("publishNotReadyAddresses"))
    ready: list[Object] = []
    waiting: list[Object] = []
    for pod in pods:
        metadata = pod["metadata"]
        address: dict[str, Any] = {
            "ip": pod["status"]["podIP"],
            "nodeName": pod["spec"].get("nodeName", ""),
            "targetRef": {
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
            address["hostname"] = pod["spec"]["hostname"]
        (ready if publish_all or is_ready(pod) else waiting).append(address)
    if not ready and not waiting:
        return []
    subset: dict[str, Any] = {}
    if ready:
        subset["addresses"] = ready
    if waiting:
        subset["notReadyAddresses"] = waiting
    ports = _ports(service, pods)
    if ports:
        subset["ports"] = ports
    return [subset]


def endpoints_of_slice(service: Object, pods: Sequence[Object]) -> list[Object]:
    """Return the `endpoints` of the Service's EndpointSlice."""
    publish_all = bool(service["spec"].get("publishNotReadyAddresses"))
    out: list[Object] = []
    for pod in pods:
        metadata = pod["metadata"]
        terminating = bool(metadata.get("deletionTimestamp"))
        ready = is_ready(pod)
        out.append(
            {
                "addresses": [pod["status"]["podIP"]],
                "conditions": {
                    "ready": publish_all or (ready and not terminating),
                    "serving": ready,
                    "terminating": terminating,
                },
                "nodeName": pod["spec"].get("nodeName", ""),
                "targetRef": {
                    "kind": "Pod",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            }
        )
    return out


def _ports(service: Object, pods: Sequence[Object]) -> list[Object]:
    out: list[Object] = []
    for port in service["spec"].get("ports") or ():
        entry: dict[str, Any] = {"port": target_port(port, pods), "protocol": port.get("protocol", "TCP")}
        if port.get("name"):
            entry["name"] = port["name"]
        out.append(entry)
    return out


class EndpointsController:
    """Keeps one Endpoints and one EndpointSlice per Service that has a selector."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._services = informers.of(SERVICES)
        self._pods = informers.of(PODS)
        self._written: dict[tuple[str, str], list[Object]] = {}
        self._controller: Controller[tuple[str, str]] = Controller("endpoints", self._reconcile, workers=2)
        self._services.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        if change == "MODIFIED" and old is not None and _relevant(old) == _relevant(new):
            return
        labels = [
            new["metadata"].get("labels") or {},
            ((old or {}).get("metadata") or {}).get("labels") or {},
        ]
        for service in self._services.items():
            selector = service["spec"].get("selector")
            if (
                selector
                and service["metadata"]["namespace"] == new["metadata"]["namespace"]
                and any(selector.items() <= each.items() for each in labels)
            ):
                self._controller.enqueue(key_of(service))

    async def _reconcile(self, key: tuple[str, str]) -> float | None:
        service = self._services.get(*key)
        if (
            service is None
            or not service["spec"].get("selector")
            or service["metadata"].get("deletionTimestamp")
        ):
            self._written.pop(key, None)
            return None
        pods = selected(service, list(self._pods.items()))
        desired = [*self._objects(service, pods)]
        if self._written.get(key) == desired:
            return None
        try:
            for resource, obj in zip((ENDPOINTS, ENDPOINTSLICES), desired, strict=True):
                await self._client.apply(resource, obj, field_manager=MANAGER)
        except ApiError as error:
            if error.code in (403, 404):  # the namespace is going away
                return None
            raise
        self._written[key] = desired
        return None

    def _objects(self, service: Object, pods: Sequence[Object]) -> tuple[Object, Object]:
        metadata = service["metadata"]
        owner = {
            "apiVersion": "v1",
            "kind": "Service",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        base = {"namespace": metadata["namespace"], "name": metadata["name"], "ownerReferences": [owner]}
        labels = dict(metadata.get("labels") or {})
        endpoints = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {**base, "labels": labels},
            "subsets": subsets(service, pods),
        }
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                **base,
                "labels": {
                    **labels,
                    "kubernetes.io/service-name": metadata["name"],
                    "endpointslice.kubernetes.io/managed-by": MANAGER,
                },
            },
            "addressType": "IPv4",
            "endpoints": endpoints_of_slice(service, pods),
            "ports": _ports(service, pods),
        }
        return endpoints, slice_


def _relevant(pod: Object) -> tuple[Any, ...]:
    status = pod.get("status") or {}
    return (
        status.get("podIP"),
        status.get("phase"),
        is_ready(pod),
        pod["metadata"].get("labels"),
        pod["metadata"].get("deletionTimestamp"),
    )
