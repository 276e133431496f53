"""Endpoints, which the endpoints controller writes."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, first_few
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import ENDPOINTS


def _defaults(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            setdefault(port, "protocol", "TCP")


_LISTED = 3


def _row(obj: Object, now: float) -> list[Any]:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [item.get("ip", "") for item in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{ip}:{port.get('port')}" for port in ports for ip in addresses] if ports else addresses
    return [name_of(obj), first_few(found, _LISTED, NONE), age(obj, now)]


_DEPRECATED = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"

KIND = Builtin(
    info=row(ENDPOINTS, "ep", create_on_update=True, deprecation_warning=_DEPRECATED),
    does="written for every Service with a selector",
    defaults=_defaults,
    columns=Columns(define("Name, Endpoints, Age"), _row),
    viewed=("",),
)
