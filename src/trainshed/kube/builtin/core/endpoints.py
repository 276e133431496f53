"""Endpoints, which the endpoints controller writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.addresses import (
    address_warnings,
    app_protocol_causes,
    endpoint_ip_causes,
    ip_causes,
    number_causes,
    port_name_causes,
)
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, first_few
from trainshed.kube.builtin.parts.pod.containers import PROTOCOLS
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects
from trainshed.kube.meta.resources import ENDPOINTS


def _defaults(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            setdefault(port, "protocol", "TCP")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with Endpoints."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        at = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield causes.required(at, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field) or ()):
                yield from _address(address, f"{at}.{field}[{number}]")
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            yield from _port(port, f"{at}.ports[{number}]", named=len(ports) > 1)


def _address(address: Object, at: str) -> Iterator[Cause]:
    ip = address.get("ip") or ""
    yield from ip_causes(ip, f"{at}.ip")
    for field, rule in (("hostname", names.dns_label), ("nodeName", names.dns_subdomain)):
        value = address.get(field)
        if value or (value is not None and field == "nodeName"):
            for why in rule(value):
                yield causes.invalid(f"{at}.{field}", value, why)
    yield from endpoint_ip_causes(ip, f"{at}.ip")


def _port(port: Object, at: str, *, named: bool) -> Iterator[Cause]:
    if named and not port.get("name"):
        yield causes.required(f"{at}.name")
    elif port.get("name"):
        yield from port_name_causes(port["name"], at)
    yield from number_causes(port.get("port"), f"{at}.port")
    if port["protocol"] not in PROTOCOLS:
        yield causes.unsupported(f"{at}.protocol", port["protocol"], PROTOCOLS)
    yield from app_protocol_causes(port, at)


_LISTED = 3


def _row(obj: Object, now: float) -> list[Any]:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [item.get("ip", "") for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses] if ports else addresses
    return [name_of(obj), first_few(found, _LISTED, NONE), age(obj, now)]


_DEPRECATED = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    for number, subset in enumerate(objects(obj, "subsets")):
        for field in ("addresses", "notReadyAddresses"):
            for index, address in enumerate(objects(subset, field)):
                yield from address_warnings(address.get("ip"), f"subsets[{number}].{field}[{index}].ip")


KIND = Builtin(
    info=row(ENDPOINTS, "ep", create_on_update=True, deprecation_warning=_DEPRECATED),
    does="written for every Service with a selector",
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Endpoints, Age"), _row),
    viewed=("",),
)
