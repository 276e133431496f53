"""Services; addresses are allocated by the API server's admission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, proxy, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, labels
from trainshed.kube.builtin.parts.pod.containers import PORT_RANGE, PROTOCOLS, port_causes
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import paths
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import SERVICES
from trainshed.kube.schema.metadata import labels_causes

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    kind = setdefault(spec, "type", "ClusterIP")
    setdefault(spec, "sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        affinity = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        affinity.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        setdefault(port, "protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        setdefault(spec, "internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        setdefault(spec, "externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Service."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    kind = spec.get("type") or "ClusterIP"
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    yield from one_of(spec, "spec", "type", _TYPES)
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
    yield from _port_causes(ports, kind)
    if old is not None:
        yield from _cluster_ip(spec, spec_of(old), kind)


def _port_causes(ports: list[Object], kind: str) -> Iterator[Cause]:
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
            shown = (
                f'core.ServicePort{{Name:"", Protocol:"{key[1]}", AppProtocol:(*string)(nil), Port:{number}, '
            )
            shown += 'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
            yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}", at)
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


def _cautions(obj: Object) -> Iterator[str]:
    """Yield what other clusters do for the Service and this one does not."""
    spec = spec_of(obj)
    if spec.get("externalIPs"):
        yield "spec.externalIPs: addresses of this machine do not lead to services"
    for field in ("internalTrafficPolicy", "externalTrafficPolicy"):
        if spec.get(field) == "Local":
            yield f"spec.{field}: nodes of this cluster are one machine; endpoints of all of them are used"
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


KIND = Builtin(
    info=row(
        SERVICES,
        "svc",
        categories=ALL,
        subresources={**proxy("ServiceProxyOptions"), **STATUS},
        create_on_update=True,
    ),
    does="cluster IPs lead to the ready pods, node ports and load balancers from 127.0.0.1; DNS names",
    lacks="no SCTP, `externalIPs` and `Local` traffic policies",
    name_rule=names.dns_1035_label,
    defaults=_defaults,
    check=_check,
    cautions=_cautions,
    columns=Columns(define("Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"), _row),
    fields=paths("spec.clusterIP", "spec.type"),
    viewed=("", "status"),
    edited=("", "proxy"),
    returns_deleted=True,
)
