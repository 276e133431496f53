"""NetworkPolicies: without `policyTypes` they are about what their rules are about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define, label_selector
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource

_DIRECTIONS = ("Ingress", "Egress")


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                setdefault(port, "protocol", "TCP")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    for index, direction in enumerate(spec_of(obj).get("policyTypes") or ()):
        if direction not in _DIRECTIONS:
            yield causes.unsupported(f"spec.policyTypes[{index}]", direction, _DIRECTIONS)


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), label_selector(spec_of(obj).get("podSelector")), age(obj, now)]


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"), "netpol", generation=True
    ),
    inert=True,
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Pod-Selector, Age"), _row),
    viewed=("",),
    edited=("",),
)
