"""EndpointSlices: addresses of one family, which stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import UNSET, Columns, age, define, first_few
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import ENDPOINTSLICES

_LISTED = 3


def _defaults(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        setdefault(port, "protocol", "TCP")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
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


KIND = Builtin(
    info=row(ENDPOINTSLICES, generation=True),
    does="written for every Service with a selector",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, AddressType, Ports, Endpoints, Age"), _row),
    viewed=("",),
)
