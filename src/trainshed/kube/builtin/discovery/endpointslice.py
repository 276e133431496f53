"""EndpointSlices: addresses of one family, which stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.addresses import (
    address_of,
    address_warnings,
    app_protocol_causes,
    endpoint_ip_causes,
    ip_causes,
    number_causes,
    port_name_causes,
)
from trainshed.kube.builtin.parts.columns import UNSET, Columns, age, define, first_few
from trainshed.kube.builtin.parts.pod.containers import PROTOCOLS
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section
from trainshed.kube.meta.resources import ENDPOINTSLICES
from trainshed.kube.schema.metadata import labels_causes

_LISTED = 3
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100
_MOST_ZONES = 8


def _defaults(obj: Object) -> None:
    for field in ("endpoints", "ports"):
        obj[field] = obj.get(field) or None
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        setdefault(port, "protocol", "TCP")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an EndpointSlice.

    Source of rules and texts: `pkg/apis/discovery/validation/validation.go` of Kubernetes.
    """
    kind = obj.get("addressType") or ""
    endpoints, ports = obj.get("endpoints") or [], obj.get("ports") or []
    if not kind:
        yield causes.required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield causes.unsupported("addressType", kind, _ADDRESS_TYPES)
    if len(endpoints) > _MOST_ENDPOINTS:
        yield causes.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
    else:
        for index, endpoint in enumerate(endpoints):
            yield from _endpoint(endpoint, kind, f"endpoints[{index}]")
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"ports[{index}]", seen)
    if old is not None and kind != old.get("addressType"):
        yield causes.invalid("addressType", kind, "field is immutable")


def _endpoint(endpoint: Object, kind: str, at: str) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield causes.required(f"{at}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield causes.too_many(f"{at}.addresses", len(addresses), _MOST_ADDRESSES)
    for index, address in enumerate(addresses):
        yield from _address(address, kind, f"{at}.addresses[{index}]")
    if endpoint.get("nodeName") is not None:
        for why in names.dns_subdomain(endpoint["nodeName"]):
            yield causes.invalid(f"{at}.nodeName", endpoint["nodeName"], why)
    topology = endpoint.get("deprecatedTopology")
    yield from labels_causes(topology, f"{at}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        for why in names.dns_label(endpoint["hostname"]):
            yield causes.invalid(f"{at}.hostname", endpoint["hostname"], why)
    zones = [zone.get("name") or "" for zone in section(endpoint, "hints").get("forZones") or ()]
    if len(zones) > _MOST_ZONES:
        yield causes.too_many(f"{at}.hints.forZones", len(zones), _MOST_ZONES)
        return
    for index, zone in enumerate(zones):
        where = f"{at}.hints.forZones[{index}].name"
        if zone in zones[:index]:
            yield causes.duplicate(where, zone)
        for why in names.label_value(zone):
            yield causes.invalid(where, zone, why)


def _address(address: str, kind: str, at: str) -> Iterator[Cause]:
    if kind == "FQDN":
        for why in names.dns_subdomain(address):
            yield causes.invalid(at, address, why)
        return
    found = address_of(address)
    yield from ip_causes(address, at)
    if found is not None and kind in ("IPv4", "IPv6") and found.version != int(kind[-1]):
        yield causes.invalid(at, address, f"must be an {kind} address")
    if found is not None and kind in ("IPv4", "IPv6"):
        yield from endpoint_ip_causes(address, at)


def _port(port: Object, at: str, seen: set[str]) -> Iterator[Cause]:
    name = port["name"]
    if name:
        yield from port_name_causes(name, at)
    if name in seen:
        yield causes.duplicate(f"{at}.name", name)
    seen.add(name)
    if port["protocol"] not in PROTOCOLS:
        yield causes.unsupported(f"{at}.protocol", port["protocol"], PROTOCOLS)
    if port.get("port") is not None:
        yield from number_causes(port["port"], f"{at}.port")
    yield from app_protocol_causes(port, at)


def _row(obj: Object, now: float) -> list[Any]:
    ports = [str(port["port"]) if port.get("port") else "*" for port in obj.get("ports") or ()]
    addresses = [ip for item in obj.get("endpoints") or () for ip in item.get("addresses") or ()]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        first_few(ports, _LISTED, UNSET),
        first_few(addresses, _LISTED, UNSET),
        age(obj, now),
    ]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    if obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
        return
    for number, endpoint in enumerate(objects(obj, "endpoints")):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from address_warnings(address, f"endpoints[{number}].addresses[{index}]")


KIND = Builtin(
    info=row(ENDPOINTSLICES, generation=True),
    does="written for every Service with a selector",
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, AddressType, Ports, Endpoints, Age"), _row),
    viewed=("",),
)
