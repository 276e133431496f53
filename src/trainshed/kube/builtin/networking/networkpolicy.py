"""NetworkPolicies: without `policyTypes` they are about what their rules are about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.addresses import cidr_causes, network_of, network_warnings, number_causes
from trainshed.kube.builtin.parts.columns import Columns, age, define, label_selector
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.metadata import selector_causes

_DIRECTIONS = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")


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
    """Yield what is wrong with a NetworkPolicy; of an update twice, as Kubernetes tells it.

    Source of rules and texts: `pkg/apis/networking/validation/validation.go` of Kubernetes.
    """
    found = list(_spec(spec_of(obj)))
    yield from found
    if old is not None:
        yield from found


def _spec(spec: Object) -> Iterator[Cause]:
    yield from selector_causes(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _port(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{at}.{peers}[{number}]")
    directions = spec.get("policyTypes") or []
    if len(directions) > len(_DIRECTIONS):
        shown = golang.text_list(directions, "networking.PolicyType")
        yield causes.invalid_shown("spec.policyTypes", shown, "may not specify more than two policyTypes")
        return
    for index, direction in enumerate(directions):
        if direction not in _DIRECTIONS:
            yield causes.unsupported(f"spec.policyTypes[{index}]", direction, _DIRECTIONS)


def _port(port: Object, at: str) -> Iterator[Cause]:
    if port["protocol"] not in _PROTOCOLS:
        yield causes.unsupported(f"{at}.protocol", port["protocol"], _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        yield from number_causes(number, f"{at}.port")
        if end is not None and end < number:
            yield causes.invalid(f"{at}.endPort", number, "must be greater than or equal to `port`")
        if end is not None:
            yield from number_causes(end, f"{at}.endPort")
        return
    if end is not None:
        text = "when `port` is not specified" if number is None else "when `port` is non-numeric"
        yield causes.invalid(f"{at}.endPort", end, f"may not be specified {text}")
    if number is not None:
        for why in names.port_name(number):
            yield causes.invalid(f"{at}.port", number, why)


def _peer(peer: Object, at: str) -> Iterator[Cause]:
    named = [
        field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None
    ]
    for field in named:
        if field == "ipBlock":
            yield from _block(peer["ipBlock"], f"{at}.ipBlock")
        else:
            yield from selector_causes(peer[field], f"{at}.{field}")
    if not named:
        yield causes.required(at, "must specify a peer")
    elif "ipBlock" in named and len(named) > 1:
        yield causes.forbidden(at, "may not specify both ipBlock and another peer")


def _block(block: Object, at: str) -> Iterator[Cause]:
    if not block.get("cidr"):
        yield causes.required(f"{at}.cidr")
        return
    yield from cidr_causes(block["cidr"], f"{at}.cidr")
    whole = network_of(block["cidr"])
    if whole is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        where = f"{at}.except[{index}]"
        yield from cidr_causes(text, where)
        part = network_of(text)
        if part is not None and (part.prefixlen <= whole.prefixlen or part.network_address not in whole):
            yield causes.invalid(where, text, "must be a strict subset of `cidr`")


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), label_selector(spec_of(obj).get("podSelector")), age(obj, now)]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(objects(spec_of(obj), field)):
            for index, peer in enumerate(objects(rule, peers)):
                at, block = f"spec.{field}[{number}].{peers}[{index}].ipBlock", section(peer, "ipBlock")
                yield from network_warnings(block.get("cidr"), f"{at}.cidr")
                for place, text in enumerate(block.get("except") or ()):
                    yield from network_warnings(text, f"{at}.except[{place}]")


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"), "netpol", generation=True
    ),
    inert=True,
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Pod-Selector, Age"), _row),
    viewed=("",),
    edited=("",),
)
