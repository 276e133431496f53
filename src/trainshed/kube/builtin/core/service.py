"""Services; addresses are allocated by the API server's admission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, proxy, row
from trainshed.kube.builtin.parts.addresses import (
    address_warnings,
    app_protocol_causes,
    cidr_causes,
    endpoint_ip_causes,
    ip_causes,
    network_warnings,
    number_causes,
    port_name_causes,
)
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, labels
from trainshed.kube.builtin.parts.pod.containers import PROTOCOLS, port_causes
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import paths
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import SERVICES
from trainshed.kube.schema.metadata import labels_causes

_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_KUBELET_PORT = 10250
_LONGEST_AFFINITY = 86400
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def is_reached_from_outside(spec: Object) -> bool:
    """Return whether a Service of this spec has a policy for traffic from outside the cluster."""
    kind = spec.get("type") or "ClusterIP"
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Object) -> bool:
    """Return whether load balancers are to ask each node for endpoints of its own."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    kind = setdefault(spec, "type", "ClusterIP")
    setdefault(spec, "sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        affinity = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        affinity.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        setdefault(port, "protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.setdefault("port", 0)
    if kind != "ExternalName":
        setdefault(spec, "internalTrafficPolicy", "Cluster")
    if is_reached_from_outside(spec):
        setdefault(spec, "externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Service.

    Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
    """
    if subresource == "status":
        return
    spec = spec_of(obj)
    kind = spec.get("type") or "ClusterIP"
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield causes.required("spec.ports")
    yield from _of_type(spec, kind, ports, headless=headless)
    yield from _port_causes(ports, kind)
    yield from labels_causes(spec.get("selector"), "spec.selector")
    yield from _affinity(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{index}]"
        found = list(ip_causes(address, at))
        yield from found or endpoint_ip_causes(address, at)
    if not spec.get("type"):
        yield causes.required("spec.type")
    yield from one_of(spec, "spec", "type", _TYPES)
    yield from _policies(spec, kind, {} if old is None else spec_of(old))
    if old is not None:
        yield from _cluster_ip(spec, spec_of(old), kind)
        yield from _health_port(spec, spec_of(old))


def _of_type(spec: Object, kind: str, ports: list[Object], *, headless: bool) -> Iterator[Cause]:
    if kind == "LoadBalancer":
        for index, port in enumerate(ports):
            if port.get("port") == _KUBELET_PORT:
                text = "may not expose port 10250 externally since it is used by kubelet"
                yield causes.invalid(f"spec.ports[{index}]", _KUBELET_PORT, text)
    if headless and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        yield causes.invalid("spec.clusterIPs[0]", "None", text)
    if kind == "ExternalName":
        if spec.get("clusterIP"):
            text = "may not be set when `type` is 'ExternalName'"
            yield causes.forbidden("spec.clusterIP", text)
        target = (spec.get("externalName") or "").removesuffix(".")
        if not target:
            yield causes.required("spec.externalName")
        for why in names.dns_subdomain(target) if target else ():
            yield causes.invalid("spec.externalName", spec["externalName"], why)


def _affinity(spec: Object) -> Iterator[Cause]:
    yield from one_of(spec, "spec", "sessionAffinity", ("ClientIP", "None"))
    if spec.get("sessionAffinity") == "ClientIP":
        seconds = section(spec, "sessionAffinityConfig", "clientIP").get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
            at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield causes.invalid(at, seconds, f"must be greater than 0 and less than {_LONGEST_AFFINITY}")


def _policies(spec: Object, kind: str, old: Object) -> Iterator[Cause]:
    only = "may only be used when `type` is 'LoadBalancer'"
    if kind == "LoadBalancer":
        for index, source in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            yield from cidr_causes(source.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    elif spec.get("loadBalancerSourceRanges"):
        yield causes.forbidden("spec.LoadBalancerSourceRanges", only)
    of_balancer = spec.get("loadBalancerClass")
    if kind == old.get("type") == "LoadBalancer" and of_balancer != old.get("loadBalancerClass"):
        shown = of_balancer if of_balancer is not None else "null"
        yield causes.invalid("spec.loadBalancerClass", shown, "may not change once set")
    if kind == "LoadBalancer" and of_balancer is not None:
        for why in names.qualified_name(spec["loadBalancerClass"]):
            yield causes.invalid("spec.loadBalancerClass", spec["loadBalancerClass"], why)
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if kind != "LoadBalancer" and spec.get(field) is not None:
            yield causes.forbidden(f"spec.{field}", only)
    yield from one_of(spec, "spec", "internalTrafficPolicy", ("Cluster", "Local"))
    outside = spec.get("externalTrafficPolicy")
    if is_reached_from_outside(spec):
        yield from one_of(spec, "spec", "externalTrafficPolicy", ("Cluster", "Local"))
    elif outside:
        text = "may only be set for externally-accessible services"
        yield causes.invalid("spec.externalTrafficPolicy", outside, text)
    if spec.get("healthCheckNodePort") and not needs_health_check(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield causes.invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text)
    yield from one_of(spec, "spec", "ipFamilyPolicy", _FAMILY_POLICIES)
    spread = spec.get("trafficDistribution")
    if spread is not None and spread != "PreferClose":
        yield causes.unsupported("spec.trafficDistribution", spread, ("PreferClose",))


def _port_causes(ports: list[Object], kind: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"spec.ports[{index}]", seen, named=len(ports) > 1)
    for index, port in enumerate(ports):
        if port.get("nodePort") and kind in ("ClusterIP", "ExternalName"):
            text = f"may not be used when `type` is '{kind}'"
            yield causes.forbidden(f"spec.ports[{index}].nodePort", text)
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        key = (port.get("port") or 0, port.get("protocol") or "TCP")
        if key in numbers:
            shown = (
                f'core.ServicePort{{Name:"", Protocol:"{key[1]}", AppProtocol:(*string)(nil), Port:{key[0]}, '
            )
            shown += 'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
            yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}", f"spec.ports[{index}]")
        numbers.add(key)
    places: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        place = (port.get("nodePort") or 0, port.get("protocol") or "TCP")
        if place[0] and place in places:
            yield causes.duplicate(f"spec.ports[{index}].nodePort", place[0])
        places.add(place)


def _port(port: Object, at: str, seen: set[str], *, named: bool) -> Iterator[Cause]:
    name, number, target = port.get("name") or "", port.get("port") or 0, port.get("targetPort")
    if named and not name:
        yield causes.required(f"{at}.name")
    elif name:
        yield from port_name_causes(name, at)
        if name in seen:
            yield causes.duplicate(f"{at}.name", name)
        seen.add(name)
    yield from number_causes(number, f"{at}.port")
    yield from one_of(port, at, "protocol", PROTOCOLS)
    yield from port_causes(target or 0, f"{at}.targetPort")
    yield from app_protocol_causes(port, at)
    if port.get("nodePort"):
        yield from port_causes(port["nodePort"], f"{at}.nodePort")


def _cluster_ip(spec: Object, old: Object, kind: str) -> Iterator[Cause]:
    before, after = old.get("clusterIP"), spec.get("clusterIP")
    if "ExternalName" in (kind, old.get("type")) or not before:
        return
    if after != before:
        shown = spec.get("clusterIPs") or ([after] if after else [])
        yield causes.invalid("spec.clusterIPs[0]", shown, "may not change once set")


def _health_port(spec: Object, old: Object) -> Iterator[Cause]:
    port = "healthCheckNodePort"
    if needs_health_check(old) and needs_health_check(spec) and old.get(port) != spec.get(port):
        yield causes.forbidden(f"spec.{port}", "field is immutable")


def _cautions(obj: Object) -> Iterator[str]:
    """Yield what other clusters do for the Service and this one does not."""
    spec = spec_of(obj)
    if spec.get("externalIPs"):
        yield "spec.externalIPs: addresses of this machine do not lead to services"
    if spec.get("loadBalancerSourceRanges"):
        yield "spec.loadBalancerSourceRanges: only this machine reaches the load balancer, and all of it does"
    for index, port in enumerate(spec.get("ports") or ()):
        if port.get("protocol") == "SCTP" and spec.get("clusterIP") != "None":
            yield f"spec.ports[{index}]: SCTP is not forwarded"


def _external_ip(obj: Object) -> str:
    service = spec_of(obj)
    kind = service.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(service.get("externalName", ""))
    found: list[str] = []
    if kind == "LoadBalancer":
        ingress = section(obj, "status", "loadBalancer").get("ingress") or ()
        found = sorted(item.get("ip") or item.get("hostname", "") for item in ingress)
    found += service.get("externalIPs") or []
    return ",".join(found) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ports_cell(ports: list[Object]) -> str:
    texts = []
    for port in ports:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _row(obj: Object, now: float) -> list[Any]:
    service = spec_of(obj)
    return [
        name_of(obj),
        service.get("type", "ClusterIP"),
        next(iter(service.get("clusterIPs") or ()), None) or service.get("clusterIP") or NONE,
        _external_ip(obj),
        _ports_cell(service.get("ports") or []),
        age(obj, now),
        labels(service.get("selector")),
    ]


_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    yield from _cautions(obj)
    spec = spec_of(obj)
    if _HINTS in section(obj, "metadata", "annotations"):
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    for field in ("clusterIPs", "externalIPs"):
        for index, address in enumerate(spec.get(field) or ()):
            yield from address_warnings(address, f"spec.{field}[{index}]")
    yield from address_warnings(spec.get("loadBalancerIP"), "spec.loadBalancerIP")
    for index, network in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from network_warnings(network, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.get("type") == "ExternalName":
        if spec.get("externalIPs"):
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    elif spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


KIND = Builtin(
    info=row(
        SERVICES,
        "svc",
        categories=ALL,
        subresources={**proxy("ServiceProxyOptions"), **STATUS},
        create_on_update=True,
    ),
    does="cluster IPs lead to the ready pods, node ports and load balancers from 127.0.0.1; DNS names",
    lacks="no SCTP and `externalIPs`",
    name_rule=names.dns_1035_label,
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"), _row),
    fields=paths("spec.clusterIP", "spec.type"),
    viewed=("", "status"),
    edited=("", "proxy"),
    returns_deleted=True,
)
