"""Rules of the small core kinds: Service, ConfigMap, Secret, Namespace, Node, Event, and endpoints.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.containers import PORT_RANGE, PROTOCOLS, port_causes
from trainshed.kube.builtin.parts.pod.scheduling import TAINT_EFFECTS
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.metadata import labels_causes

CONFIG_MAX = 1048576
"""Bytes of all values of a ConfigMap or Secret."""

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def service_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Service."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    yield from one_of(spec, "spec", "type", _SERVICE_TYPES)
    yield from one_of(spec, "spec", "sessionAffinity", ("ClientIP", "None"))
    yield from one_of(spec, "spec", "internalTrafficPolicy", ("Cluster", "Local"))
    yield from one_of(spec, "spec", "externalTrafficPolicy", ("Cluster", "Local"))
    yield from labels_causes(spec.get("selector"), "spec.selector")
    if kind == "ExternalName":
        target = (spec.get("externalName") or "").rstrip(".")
        if not target:
            yield causes.required("spec.externalName")
        else:
            for why in names.dns_subdomain(target):
                yield causes.invalid("spec.externalName", target, why)
        if spec.get("clusterIP"):
            text = "may not be set when `type` is 'ExternalName'"
            yield causes.forbidden("spec.clusterIP", text)
    elif not ports and not headless:
        yield causes.required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        yield causes.invalid("spec.clusterIPs[0]", "None", text)
    yield from _service_ports(ports, kind)
    if old is not None:
        yield from _cluster_ip(spec, old.get("spec") or {}, kind)


def _service_ports(ports: list[Object], kind: str) -> Iterator[Cause]:
    seen_names: set[str] = set()
    seen_ports: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        name, number = port.get("name") or "", port.get("port") or 0
        if name:
            for why in names.dns_label(name):
                yield causes.invalid(f"{at}.name", name, why)
            if name in seen_names:
                yield causes.duplicate(f"{at}.name", name)
            seen_names.add(name)
        elif len(ports) > 1:
            yield causes.required(f"{at}.name")
        if not 1 <= number <= 65535:
            yield causes.invalid(f"{at}.port", number, PORT_RANGE)
        yield from one_of(port, at, "protocol", PROTOCOLS)
        target = port.get("targetPort")
        if target not in (None, 0, ""):
            yield from port_causes(target, f"{at}.targetPort")
        key = (number, port.get("protocol") or "TCP")
        if key in seen_ports:
            yield causes.duplicate(at, {"protocol": key[1], "port": number})
        seen_ports.add(key)
        if port.get("nodePort"):
            if kind == "ClusterIP":
                text = "may not be used when `type` is 'ClusterIP'"
                yield causes.forbidden(f"{at}.nodePort", text)
            yield from port_causes(port["nodePort"], f"{at}.nodePort")


def _cluster_ip(spec: Object, old: Object, kind: str) -> Iterator[Cause]:
    before, after = old.get("clusterIP"), spec.get("clusterIP")
    if "ExternalName" in (kind, old.get("type")) or not before:
        return
    if after != before:
        shown = spec.get("clusterIPs") or ([after] if after else [])
        yield causes.invalid("spec.clusterIPs[0]", shown, "may not change once set")


def config_map_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ConfigMap."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from _keys(data, "data")
    yield from _keys(binary, "binaryData")
    for key in data:
        if key in binary:
            text = f"duplicate of key present in binaryData: {key}"
            yield causes.invalid(f"data[{key}]", key, text)
    yield from _size({**data, **binary})
    if old is not None and old.get("immutable"):
        yield from _frozen(obj, old, ("data", "binaryData"))


def secret_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Secret whose `stringData` is folded into `data`."""
    data, kind = obj.get("data") or {}, obj.get("type") or "Opaque"
    yield from _keys(data, "data")
    yield from _size(data)
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield causes.required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield causes.required("data[username]")
        yield causes.required("data[password]")
    if kind == "kubernetes.io/service-account-token":
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if not annotations.get("kubernetes.io/service-account.name"):
            yield causes.required("metadata.annotations[kubernetes.io/service-account.name]")
    if old is not None:
        if kind != (old.get("type") or "Opaque"):
            yield causes.invalid("type", kind, "field is immutable")
        if old.get("immutable"):
            yield from _frozen(obj, old, ("data",))


def _keys(data: Object, path: str) -> Iterator[Cause]:
    for key in data:
        for why in names.config_key(key):
            yield causes.invalid(f"{path}[{key}]", key, why)


def _size(data: dict[str, str]) -> Iterator[Cause]:
    if sum(len(value) for value in data.values()) > CONFIG_MAX:
        yield causes.too_long("", CONFIG_MAX)


def _frozen(obj: Object, old: Object, fields: tuple[str, ...]) -> Iterator[Cause]:
    text = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield causes.forbidden("immutable", text)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            yield causes.forbidden(field, text)


def node_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Node's taints and fixed fields."""
    spec = obj.get("spec") or {}
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at = f"spec.taints[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        for why in names.qualified_name(key):
            yield causes.invalid(f"{at}.key", key, why)
        for why in names.label_value(taint.get("value") or ""):
            yield causes.invalid(f"{at}.value", taint.get("value"), why)
        if not effect:
            yield causes.required(f"{at}.effect")
        elif effect not in TAINT_EFFECTS:
            yield causes.unsupported(f"{at}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            yield causes.duplicate(at, taint)
        seen.add((key, effect))
    before = (old or {}).get("spec") or {}
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield causes.forbidden(
            "spec.providerID", 'node updates may not change providerID except from "" to valid'
        )


def event_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a core Event: it lives in the namespace of what it is about."""
    namespace = (obj.get("metadata") or {}).get("namespace")
    involved = (obj.get("involvedObject") or {}).get("namespace") or ""
    if involved != namespace and (involved or namespace not in ("default", "kube-system")):
        yield causes.invalid("involvedObject.namespace", involved, "does not match event.namespace")


def endpoint_slice_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an EndpointSlice."""
    kind = obj.get("addressType")
    if not kind:
        yield causes.required("addressType")
    yield from one_of(obj, "", "addressType", ("FQDN", "IPv4", "IPv6"))
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            text = "must contain at least 1 address"
            yield causes.required(f"endpoints[{index}].addresses", text)
    if old is not None and kind != old.get("addressType"):
        yield causes.invalid("addressType", kind, "field is immutable")
