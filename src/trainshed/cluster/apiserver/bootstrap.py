"""The objects that a cluster starts with. Made through the API, so they are like any other object.

Missing ones are created at every start; existing ones are left as they are.
"""

from __future__ import annotations

import asyncio
import time

from trainshed.client.client import Client
from trainshed.cluster.apiserver.admission.addresses import ALLOCATOR, MANAGED_BY, address_of, addresses_of
from trainshed.cluster.apiserver.bootstrap_roles import cluster_role_bindings, cluster_roles
from trainshed.cluster.pki import FRONT_PROXY
from trainshed.cluster.sandbox.addresses import API_ADDRESS, SERVICE_NETWORK
from trainshed.kube.builtin.networking.servicecidr import DEFAULT as DEFAULT_RANGE
from trainshed.kube.builtin.parts.flowcontrol import FLOW_SCHEMAS, PRIORITY_LEVELS
from trainshed.kube.builtin.parts.storageclasses import IS_DEFAULT
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    ENDPOINTS,
    ENDPOINTSLICES,
    FLOWSCHEMAS,
    IPADDRESSES,
    NAMESPACES,
    PRIORITYCLASSES,
    PRIORITYLEVELS,
    ROLES,
    SERVICECIDRS,
    SERVICES,
    STORAGECLASSES,
    Resource,
)
from trainshed.kube.meta.times import format_time

DEFAULT_CLASS = "standard"
PROVISIONER = "trainshed.dev/hostdir"
_MANAGERS = dict.fromkeys((FLOWSCHEMAS, PRIORITYLEVELS), "api-priority-and-fairness-config-producer-v1")
_AUTHENTICATION = "extension-apiserver-authentication"
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_API_PORT = {"name": "https", "port": 443, "protocol": "TCP"}
_PRIORITIES = (
    ("system-cluster-critical", 2000000000, "critical to the cluster as a whole"),
    ("system-node-critical", 2000001000, "must not be moved away from its node"),
)


async def bootstrap(client: Client, now: float | None = None) -> None:
    """Create what is missing. Safe to repeat. `client` must be allowed everything. `now`: seconds since the epoch."""
    # Each object is asked for before it is made, but in a new cluster, where that only takes time.
    ensure = _ensure if await _exists(client, *namespaces()[0]) else _create
    for together in (namespaces(), objects(time.time() if now is None else now)):
        await asyncio.gather(*(ensure(client, resource, obj) for resource, obj in together))
    await mend_addresses(client)


def namespaces() -> list[tuple[Resource, Object]]:
    """Return the namespaces, which must exist before what is in them."""
    return [
        (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in _NAMESPACES
    ]


def objects(now: float) -> list[tuple[Resource, Object]]:
    """Return the other objects, of which none needs another."""
    out: list[tuple[Resource, Object]] = []
    out += [(CLUSTERROLES, role) for role in cluster_roles()]
    out += [(CLUSTERROLEBINDINGS, binding) for binding in cluster_role_bindings()]
    out += [(PRIORITYCLASSES, _priority(*row)) for row in _PRIORITIES]
    out += [(STORAGECLASSES, _storage_class()), (SERVICES, _api_service())]
    out += [(ROLES, _authentication_reader()), (SERVICECIDRS, _service_range(now))]
    out += [(FLOWSCHEMAS, _flow_control(FLOWSCHEMAS, *row)) for row in FLOW_SCHEMAS.items()]
    out += [(PRIORITYLEVELS, _flow_control(PRIORITYLEVELS, *row)) for row in PRIORITY_LEVELS.items()]
    out += [(ENDPOINTS, _api_endpoints()), (ENDPOINTSLICES, _api_slice())]
    return out


async def mend_addresses(client: Client) -> None:
    """Make the IPAddresses that Services lack, and delete those whose Service is gone.

    A crash between the two leaves them, and clusters of before there were IPAddresses have none.
    """
    services = (await client.list(SERVICES)).items
    held = {ip: service for service in services for ip in addresses_of(service)}
    addresses = (await client.list(IPADDRESSES)).items
    for ip in held.keys() - {name_of(address) for address in addresses}:
        await _ensure(client, IPADDRESSES, address_of(held[ip], ip))
    for address in addresses:
        ours = section(address, "metadata", "labels").get(MANAGED_BY) == ALLOCATOR
        if ours and name_of(address) not in held:
            await client.delete(IPADDRESSES, name_of(address))


async def publish_authentication(client: Client, client_ca: str, proxy_ca: str) -> None:
    """Tell aggregated API servers whom to believe what they say of users: authorities as PEM.

    Source: `pkg/controlplane/controller/clusterauthenticationtrust`.
    """
    data = {
        "client-ca-file": client_ca,
        "requestheader-allowed-names": f'["{FRONT_PROXY}"]',
        "requestheader-client-ca-file": proxy_ca,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _AUTHENTICATION, "namespace": "kube-system"},
        "data": data,
    }
    await _ensure(client, CONFIGMAPS, wanted)
    held = await client.get(CONFIGMAPS, _AUTHENTICATION, "kube-system")
    if held.get("data") != data:
        await client.update(CONFIGMAPS, {**held, "data": data})


def _authentication_reader() -> Object:
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [_AUTHENTICATION],
        "verbs": ["get", "list", "watch"],
    }
    return {
        "apiVersion": ROLES.api_version,
        "kind": "Role",
        "metadata": {
            "name": f"{_AUTHENTICATION}-reader",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        },
        "rules": [rule],
    }


async def _ensure(client: Client, resource: Resource, obj: Object) -> None:
    if not await _exists(client, resource, obj):
        await _create(client, resource, obj)


async def _exists(client: Client, resource: Resource, obj: Object) -> bool:
    metadata = obj["metadata"]
    try:
        await client.get(resource, metadata["name"], metadata.get("namespace"))
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


async def _create(client: Client, resource: Resource, obj: Object) -> None:
    """Create the object, unless there is one."""
    try:
        await client.create(resource, obj, field_manager=_MANAGERS.get(resource, ""))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _priority(name: str, value: int, what: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": f"For pods that are {what}."
        if what.startswith("critical")
        else f"For pods that {what}.",
    }


def _storage_class() -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": DEFAULT_CLASS,
            "annotations": {IS_DEFAULT: "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def _flow_control(resource: Resource, name: str, spec: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": spec,
    }


def _service_range(now: float) -> Object:
    """Return what Services get addresses of. It stays: its finalizer is never taken off."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": format_time(now),
    }
    return {
        "apiVersion": SERVICECIDRS.api_version,
        "kind": SERVICECIDRS.kind,
        "metadata": {"name": DEFAULT_RANGE, "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": [SERVICE_NETWORK]},
        "status": {"conditions": [ready]},
    }


def _api_service() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": API_ADDRESS,
            "ports": [{**_API_PORT, "targetPort": 443}],
        },
    }


def _api_endpoints() -> Object:
    """Return where the API is for who asks for the endpoints: at the address itself, with nothing behind it."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": API_ADDRESS}], "ports": [_API_PORT]}],
    }


def _api_slice() -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [API_ADDRESS], "conditions": {"ready": True}}],
        "ports": [_API_PORT],
    }
