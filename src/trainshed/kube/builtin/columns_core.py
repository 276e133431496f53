"""Tables of the core kinds besides pods: namespaces, nodes, services, volumes, events and configuration."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.parts.columns import (
    NONE,
    UNKNOWN,
    UNSET,
    Columns,
    access_modes,
    age,
    condition,
    created_at,
    define,
    first_few,
    labels,
    metadata,
    name,
    since,
    spec,
    status,
)
from trainshed.kube.meta.objects import Object

_ROLE_PREFIX = "node-role.kubernetes.io/"
_LISTED_ENDPOINTS = 3


def _namespace(obj: Object, now: float) -> list[Any]:
    return [name(obj), status(obj).get("phase", ""), age(obj, now)]


def _node_status(obj: Object) -> str:
    ready = condition(obj, "Ready")
    text = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if spec(obj).get("unschedulable") else text


def _node_roles(obj: Object) -> str:
    found = set()
    for key, value in (metadata(obj).get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address(obj: Object, kind: str) -> str:
    for item in status(obj).get("addresses") or ():
        if item.get("type") == kind:
            return str(item.get("address", ""))
    return NONE


def _node(obj: Object, now: float) -> list[Any]:
    info = status(obj).get("nodeInfo") or {}
    return [
        name(obj),
        _node_status(obj),
        _node_roles(obj),
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _external_ip(obj: Object) -> str:
    service = spec(obj)
    kind = service.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(service.get("externalName", ""))
    found: list[str] = []
    if kind == "LoadBalancer":
        ingress = (status(obj).get("loadBalancer") or {}).get("ingress") or ()
        found = sorted(item.get("ip") or item.get("hostname", "") for item in ingress)
    found += service.get("externalIPs") or []
    return ",".join(found) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _service_ports(ports: list[Object]) -> str:
    texts = []
    for port in ports:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _service(obj: Object, now: float) -> list[Any]:
    service = spec(obj)
    return [
        name(obj),
        service.get("type", "ClusterIP"),
        next(iter(service.get("clusterIPs") or ()), None) or service.get("clusterIP") or NONE,
        _external_ip(obj),
        _service_ports(service.get("ports") or []),
        age(obj, now),
        labels(service.get("selector")),
    ]


def _endpoints(obj: Object, now: float) -> list[Any]:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [item.get("ip", "") for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses] if ports else addresses
    return [name(obj), first_few(found, _LISTED_ENDPOINTS, NONE), age(obj, now)]


def _configmap(obj: Object, now: float) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _secret(obj: Object, now: float) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _name_age(obj: Object, now: float) -> list[Any]:
    return [name(obj), age(obj, now)]


def _name_created(obj: Object, now: float) -> list[Any]:
    return [name(obj), created_at(obj)]


def _event(obj: Object, now: float) -> list[Any]:
    """Serve both shapes: core events, and events.k8s.io with its renamed fields."""
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series") or {}
    first_time = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last_time = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_time
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or obj.get("reportingInstance") or ""
    kind = involved.get("kind", "").lower()
    message = obj.get("message") or obj.get("note") or ""
    return [
        since(series.get("lastObservedTime") or last_time, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        ", ".join(filter(None, (component, host))),
        message.strip(),
        since(first_time, now),
        series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1,
        name(obj),
    ]


def _phase(obj: Object) -> str:
    return "Terminating" if metadata(obj).get("deletionTimestamp") else str(status(obj).get("phase", ""))


def _storage_class(obj: Object) -> str:
    annotations = metadata(obj).get("annotations") or {}
    return (
        annotations.get("volume.beta.kubernetes.io/storage-class") or spec(obj).get("storageClassName") or ""
    )


def _pvc(obj: Object, now: float) -> list[Any]:
    claim = spec(obj)
    bound = bool(claim.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        claim.get("volumeName", ""),
        (status(obj).get("capacity") or {}).get("storage", "0") if bound else "",
        access_modes(status(obj).get("accessModes")) if bound else "",
        _storage_class(obj),
        claim.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        claim.get("volumeMode") or UNSET,
    ]


def _pv(obj: Object, now: float) -> list[Any]:
    volume = spec(obj)
    claim = volume.get("claimRef")
    return [
        name(obj),
        (volume.get("capacity") or {}).get("storage", "0"),
        access_modes(volume.get("accessModes")),
        volume.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class(obj),
        volume.get("volumeAttributesClassName") or UNSET,
        status(obj).get("reason", ""),
        age(obj, now),
        volume.get("volumeMode") or UNSET,
    ]


def _quota(obj: Object, now: float) -> list[Any]:
    hard, used = status(obj).get("hard") or {}, status(obj).get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for key in sorted(hard):
        text = f"{key}: {used.get(key, '0')}/{hard[key]}"
        (limits if key.startswith("limits.") else requests).append(text)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


NAME_AGE = Columns(define("Name, Age"), _name_age)
NAME_CREATED = Columns(define("Name, Created At"), _name_created)
EVENTS = Columns(
    define("Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count#*, Name*"),
    _event,
)

CORE: dict[tuple[str, str], Columns] = {
    ("", "configmaps"): Columns(define("Name, Data#, Age"), _configmap),
    ("", "endpoints"): Columns(define("Name, Endpoints, Age"), _endpoints),
    ("", "events"): EVENTS,
    ("events.k8s.io", "events"): EVENTS,
    ("", "limitranges"): NAME_CREATED,
    ("", "namespaces"): Columns(define("Name, Status, Age"), _namespace),
    ("", "nodes"): Columns(
        define(
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, "
            "Container-Runtime*"
        ),
        _node,
    ),
    ("", "persistentvolumeclaims"): Columns(
        define(
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, "
            "VolumeMode*"
        ),
        _pvc,
    ),
    ("", "persistentvolumes"): Columns(
        define(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
            "VolumeAttributesClass, Reason, Age, VolumeMode*"
        ),
        _pv,
    ),
    ("", "resourcequotas"): Columns(define("Name, Request, Limit, Age"), _quota),
    ("", "secrets"): Columns(define("Name, Type, Data#, Age"), _secret),
    ("", "serviceaccounts"): NAME_AGE,
    ("", "services"): Columns(
        define("Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"), _service
    ),
}
