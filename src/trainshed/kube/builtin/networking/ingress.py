"""Ingresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.addresses import address_of, ip_causes, number_causes
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, first_few
from trainshed.kube.builtin.parts.references import typed_reference_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import Resource

_LISTED = 3
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN = ("//", "/./", "/../", "%2f", "%2F")
_NO_END = ("/..", "/.")
_NO_NAME = "must be a DNS name, not an IP address"
_CLASS = "kubernetes.io/ingress.class"


def _defaults(obj: Object) -> None:
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def _row(obj: Object, now: float) -> list[Any]:
    rules = spec_of(obj).get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    balancer = section(obj, "status", "loadBalancer").get("ingress") or ()
    return [
        name_of(obj),
        spec_of(obj).get("ingressClassName") or NONE,
        first_few(hosts, _LISTED, "*"),
        ",".join(item.get("ip") or item.get("hostname", "") for item in balancer),
        "80, 443" if spec_of(obj).get("tls") else "80",
        age(obj, now),
    ]


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an Ingress: who takes its requests, and how its paths match.

    Source of rules and texts: `pkg/apis/networking/validation/validation.go` of Kubernetes.
    """
    spec = spec_of(obj)
    if subresource:
        yield from _status(obj)
        return
    rules = spec.get("rules") or []
    if not rules and spec.get("defaultBackend") is None:
        shown = "[]networking.IngressRule" + ("{}" if spec.get("rules") is not None else "(nil)")
        text = "either `defaultBackend` or `rules` must be specified"
        yield causes.invalid_shown("spec", shown, text)
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        at = f"spec.rules[{index}]"
        if rule.get("host"):
            if address_of(rule["host"]) is not None:
                yield causes.invalid(f"{at}.host", rule["host"], _NO_NAME)
            yield from _host(rule["host"], f"{at}.host")
        if rule.get("http") is None:
            continue
        if not rule["http"].get("paths"):
            yield causes.required(f"{at}.http.paths")
        for number, path in enumerate(rule["http"].get("paths") or ()):
            yield from _path(path, f"{at}.http.paths[{number}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"spec.tls[{index}].hosts[{number}]")
        if tls.get("secretName"):
            for why in names.dns_subdomain(tls["secretName"]):
                yield causes.invalid(f"spec.tls[{index}].secretName", tls["secretName"], why)
    named = spec.get("ingressClassName")
    if named is not None:
        for why in names.dns_subdomain(named):
            yield causes.invalid("spec.ingressClassName", named, why)
    annotated = section(obj, "metadata", "annotations").get(_CLASS)
    if old is None and None not in (named, annotated) and named != annotated:
        text = "must match `ingressClassName` when both are specified"
        yield causes.invalid(f"annotations.{_CLASS}", annotated, text)


def _status(obj: Object) -> Iterator[Cause]:
    for index, entry in enumerate(section(obj, "status", "loadBalancer").get("ingress") or ()):
        at = f"status.loadBalancer.ingress[{index}]"
        if entry.get("ip"):
            yield from ip_causes(entry["ip"], f"{at}.ip")
        host = entry.get("hostname")
        if host:
            for why in names.dns_subdomain(host):
                yield causes.invalid(f"{at}.hostname", host, why)
            if address_of(host) is not None:
                yield causes.invalid(f"{at}.hostname", host, _NO_NAME)


def _host(host: str, at: str) -> Iterator[Cause]:
    for why in (names.wildcard_subdomain if "*" in host else names.dns_subdomain)(host):
        yield causes.invalid(at, host, why)


def _path(path: Object, at: str) -> Iterator[Cause]:
    kind, value = path.get("pathType"), path.get("path") or ""
    if kind is None:
        yield causes.required(f"{at}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield causes.unsupported(f"{at}.pathType", kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        yield causes.invalid(f"{at}.path", value, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for within in _NOT_WITHIN:
            if within in value:
                yield causes.invalid(f"{at}.path", value, f"must not contain '{within}'")
        for end in _NO_END:
            if value.endswith(end):
                yield causes.invalid(f"{at}.path", value, f"cannot end with '{end}'")
    yield from _backend(section(path, "backend"), f"{at}.backend")


def _backend(backend: Object, at: str) -> Iterator[Cause]:
    service, other = backend.get("service"), backend.get("resource")
    if service is not None and other is not None:
        yield causes.invalid(at, "", "cannot set both resource and service backends")
    elif other is not None:
        yield from typed_reference_causes(other, f"{at}.resource")
    elif service is None:
        yield causes.invalid(at, "", "resource or service backend is required")
    else:
        yield from _service(service, at)


def _service(service: Object, at: str) -> Iterator[Cause]:
    if not service.get("name"):
        yield causes.required(f"{at}.service.name")
    else:
        for why in names.dns_1035_label(service["name"]):
            yield causes.invalid(f"{at}.service.name", service["name"], why)
    port = section(service, "port")
    if port.get("name") and port.get("number"):
        yield causes.invalid(at, "", "cannot set both port name & port number")
    elif port.get("name"):
        for why in names.port_name(port["name"]):
            yield causes.invalid(f"{at}.service.port.name", port["name"], why)
    elif port.get("number"):
        yield from number_causes(port["number"], f"{at}.service.port.number")
    else:
        yield causes.required(at, "port name or number is required")


_CLASS = "kubernetes.io/ingress.class"


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    if old is None and _CLASS in section(obj, "metadata", "annotations"):
        yield f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
        "ing",
        subresources=STATUS,
        generation=True,
    ),
    inert=True,
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Class, Hosts, Address, Ports, Age"), _row),
    viewed=("", "status"),
    edited=("",),
)
