"""Tables of policy, storage, networking and extension kinds."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.columns_core import NAME_CREATED
from trainshed.kube.builtin.parts.columns import (
    NONE,
    UNKNOWN,
    UNSET,
    Columns,
    age,
    define,
    first_few,
    label_selector,
    metadata,
    name,
    spec,
    status,
)
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.quantity import canonical, parse

_LISTED = 3
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _binding(obj: Object, now: float) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        text = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace', '')}/{text}"
        subjects.setdefault(subject.get("kind", ""), []).append(text)
    columns = (", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *columns]


def _lease(obj: Object, now: float) -> list[Any]:
    return [name(obj), spec(obj).get("holderIdentity") or "", age(obj, now)]


def _endpointslice(obj: Object, now: float) -> list[Any]:
    ports = [str(port["port"]) if port.get("port") else "*" for port in obj.get("ports") or ()]
    addresses = [ip for item in obj.get("endpoints") or () for ip in item.get("addresses") or ()]
    return [
        name(obj),
        obj.get("addressType", ""),
        first_few(ports, _LISTED, UNSET),
        first_few(addresses, _LISTED, UNSET),
        age(obj, now),
    ]


def _storageclass(obj: Object, now: float) -> list[Any]:
    annotations = metadata(obj).get("annotations") or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{name(obj)} (default)" if default else name(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _csidriver(obj: Object, now: float) -> list[Any]:
    driver = spec(obj)
    audiences = [item.get("audience", "") for item in driver.get("tokenRequests") or ()]
    return [
        name(obj),
        bool(driver.get("attachRequired", True)),
        bool(driver.get("podInfoOnMount")),
        bool(driver.get("storageCapacity")),
        ",".join(audiences) or UNSET,
        bool(driver.get("requiresRepublish")),
        ",".join(driver.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def _csinode(obj: Object, now: float) -> list[Any]:
    return [name(obj), len(spec(obj).get("drivers") or ()), age(obj, now)]


def _ingress(obj: Object, now: float) -> list[Any]:
    rules = spec(obj).get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    balancer = (status(obj).get("loadBalancer") or {}).get("ingress") or ()
    return [
        name(obj),
        spec(obj).get("ingressClassName") or NONE,
        first_few(hosts, _LISTED, "*"),
        ",".join(item.get("ip") or item.get("hostname", "") for item in balancer),
        "80, 443" if spec(obj).get("tls") else "80",
        age(obj, now),
    ]


def _ingressclass(obj: Object, now: float) -> list[Any]:
    parameters = spec(obj).get("parameters")
    text = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [name(obj), spec(obj).get("controller", ""), text, age(obj, now)]


def _networkpolicy(obj: Object, now: float) -> list[Any]:
    return [name(obj), label_selector(spec(obj).get("podSelector")), age(obj, now)]


def _priorityclass(obj: Object, now: float) -> list[Any]:
    return [
        name(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy") or "PreemptLowerPriority",
    ]


def _webhooks(obj: Object, now: float) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def _runtimeclass(obj: Object, now: float) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj, now)]


def _csr(obj: Object, now: float) -> list[Any]:
    request = spec(obj)
    kinds = [item.get("type") for item in status(obj).get("conditions") or ()]
    shown = [kind for kind in ("Approved", "Denied", "Failed") if kind in kinds] or ["Pending"]
    if status(obj).get("certificate"):
        shown.append("Issued")
    seconds = request.get("expirationSeconds")
    return [
        name(obj),
        age(obj, now),
        request.get("signerName") or NONE,
        request.get("username", ""),
        NONE if seconds is None else human(seconds),
        ",".join(shown),
    ]


def _total(usages: list[Object], resource: str) -> str:
    """Return the sum of a resource over containers, as a quantity."""
    found = [usage[resource] for usage in usages if resource in usage]
    if len(found) == 1:
        return str(found[0])
    return canonical(str(sum(map(parse, found)))) if found else UNKNOWN


def _node_metrics(obj: Object, now: float) -> list[Any]:
    usage = obj.get("usage") or {}
    return [name(obj), usage.get("cpu", UNKNOWN), usage.get("memory", UNKNOWN), obj.get("window", "")]


def _pod_metrics(obj: Object, now: float) -> list[Any]:
    usages = [item.get("usage") or {} for item in obj.get("containers") or ()]
    return [name(obj), _total(usages, "cpu"), _total(usages, "memory"), obj.get("window", "")]


_BINDING = Columns(define("Name, Role, Age, Users*, Groups*, ServiceAccounts*"), _binding)
_METRICS = define("Name, CPU, Memory, Window")
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_STORAGE = "storage.k8s.io"
_NETWORKING = "networking.k8s.io"

CLUSTER: dict[tuple[str, str], Columns] = {
    (_RBAC, "roles"): NAME_CREATED,
    (_RBAC, "clusterroles"): NAME_CREATED,
    (_RBAC, "rolebindings"): _BINDING,
    (_RBAC, "clusterrolebindings"): _BINDING,
    ("coordination.k8s.io", "leases"): Columns(define("Name, Holder, Age"), _lease),
    ("discovery.k8s.io", "endpointslices"): Columns(
        define("Name, AddressType, Ports, Endpoints, Age"), _endpointslice
    ),
    (_STORAGE, "storageclasses"): Columns(
        define("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"),
        _storageclass,
    ),
    (_STORAGE, "csidrivers"): Columns(
        define(
            "Name, AttachRequired, PodInfoOnMount, StorageCapacity, TokenRequests, RequiresRepublish, "
            "Modes, Age"
        ),
        _csidriver,
    ),
    (_STORAGE, "csinodes"): Columns(define("Name, Drivers#, Age"), _csinode),
    (_NETWORKING, "ingresses"): Columns(define("Name, Class, Hosts, Address, Ports, Age"), _ingress),
    (_NETWORKING, "ingressclasses"): Columns(define("Name, Controller, Parameters, Age"), _ingressclass),
    (_NETWORKING, "networkpolicies"): Columns(define("Name, Pod-Selector, Age"), _networkpolicy),
    ("scheduling.k8s.io", "priorityclasses"): Columns(
        define("Name, Value#, Global-Default, Age, PreemptionPolicy"), _priorityclass
    ),
    (_ADMISSION, "mutatingwebhookconfigurations"): Columns(define("Name, Webhooks#, Age"), _webhooks),
    (_ADMISSION, "validatingwebhookconfigurations"): Columns(define("Name, Webhooks#, Age"), _webhooks),
    ("apiextensions.k8s.io", "customresourcedefinitions"): NAME_CREATED,
    ("certificates.k8s.io", "certificatesigningrequests"): Columns(
        define("Name, Age, SignerName, Requestor, RequestedDuration, Condition"), _csr
    ),
    ("node.k8s.io", "runtimeclasses"): Columns(define("Name, Handler, Age"), _runtimeclass),
    ("metrics.k8s.io", "nodes"): Columns(_METRICS, _node_metrics),
    ("metrics.k8s.io", "pods"): Columns(_METRICS, _pod_metrics),
}
