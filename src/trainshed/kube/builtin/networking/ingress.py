"""Ingresses."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define, first_few
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import Resource

_LISTED = 3


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


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
        "ing",
        subresources=STATUS,
        generation=True,
    ),
    inert=True,
    columns=Columns(define("Name, Class, Hosts, Address, Ports, Age"), _row),
    viewed=("", "status"),
    edited=("",),
)
