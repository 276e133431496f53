"""Ingresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, first_few
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import Resource

_LISTED = 3
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


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
        return
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield causes.invalid("spec", [], "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        if rule.get("http") is None:
            continue
        at = f"spec.rules[{index}].http.paths"
        if not rule["http"].get("paths"):
            yield causes.required(at)
        for number, path in enumerate(rule["http"].get("paths") or ()):
            yield from _path(path, f"{at}[{number}]")


def _path(path: Object, at: str) -> Iterator[Cause]:
    kind, value = path.get("pathType"), path.get("path") or ""
    if not kind:
        yield causes.required(f"{at}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield causes.unsupported(f"{at}.pathType", kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        yield causes.invalid(f"{at}.path", value, "must be an absolute path")
    yield from _backend(section(path, "backend"), f"{at}.backend")


def _backend(backend: Object, at: str) -> Iterator[Cause]:
    service, other = backend.get("service"), backend.get("resource")
    if service is not None and other is not None:
        yield causes.invalid(at, "", "cannot set both resource and service backends")
    elif other is None and service is None:
        yield causes.required(at, "resource or service backend is required")
    elif service is not None:
        if not service.get("name"):
            yield causes.required(f"{at}.service.name")
        if not any(section(service, "port").get(key) for key in ("name", "number")):
            yield causes.required(f"{at}.service.port", "port name or number is required")


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
        "ing",
        subresources=STATUS,
        generation=True,
    ),
    inert=True,
    check=_check,
    columns=Columns(define("Name, Class, Hosts, Address, Ports, Age"), _row),
    viewed=("", "status"),
    edited=("",),
)
