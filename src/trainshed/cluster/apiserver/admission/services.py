"""Cluster IPs of Services; their ports are in `nodeports`.

What is taken is what stored Services and IPAddresses say, plus what was handed out moments ago and is not stored yet.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator

from trainshed.cluster.apiserver.admission import nodeports
from trainshed.cluster.apiserver.admission.addresses import is_taken
from trainshed.cluster.apiserver.admission.reservations import held_by_others, hold
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.sandbox.addresses import SERVICE_NETWORK
from trainshed.cluster.store import keys
from trainshed.kube.builtin.core.service import is_reached_from_outside
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import Cause, invalid
from trainshed.kube.meta.objects import Object, name_of, namespace_of, spec_of
from trainshed.kube.meta.resources import SERVICES

NETWORK = ipaddress.ip_network(SERVICE_NETWORK)
_RESERVED_LOW = 256  # left to addresses that manifests name, such as that of default/kubernetes


async def admit(core: Core, call: Call, obj: Object) -> Object:
    """Return a new Service with its addresses. Raises `ApiError` 422 when one that it names is taken."""
    return _allocated(core, call, obj)


def admit_update(core: Core, call: Call, old: Object, new: Object) -> Object:
    """Return an updated Service: addresses stay unless the type gives them up or first needs them."""
    before, spec = spec_of(old), dict(spec_of(new))
    held, sent = before.get("clusterIP"), spec.get("clusterIP")
    kept = spec.get("type") != "ExternalName" and before.get("type") != "ExternalName"
    if kept:
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if kept and held and sent and sent != held:
        text = "may not change once set"
        cause = causes.invalid_shown("spec.clusterIPs[0]", f'[]string{{"{sent}"}}', text)
        raise invalid("Service", "", new["metadata"].get("name", ""), [cause])
    nodeports.keep(before, spec)
    _give_up(before, spec)
    return _allocated(core, call, {**new, "spec": spec}, own=before)


def _give_up(before: Object, spec: Object) -> None:
    """Remove what a new type of Service has no use for, where the update leaves it as it was.

    Source: `dropTypeDependentFields` in `pkg/registry/core/service/strategy.go` of Kubernetes.
    """
    old, new = before.get("type"), spec.get("type")
    fields: list[str] = []
    if new == "ExternalName" and old != "ExternalName":
        fields += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if old == "LoadBalancer" and new != "LoadBalancer":
        fields += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if is_reached_from_outside(before) and not is_reached_from_outside(spec):
        fields.append("externalTrafficPolicy")
    nodeports.give_up(before, spec)
    for field in fields:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _allocated(core: Core, call: Call, obj: Object, own: Object | None = None) -> Object:
    spec = dict(spec_of(obj))
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            spec.pop(field, None)
        return {**obj, "spec": spec}
    anywhere = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
    single = spec["ipFamilyPolicy"] == "SingleStack"
    spec.setdefault("ipFamilies", ["IPv4"] if single or not anywhere else ["IPv4", "IPv6"])
    # Who writes the endpoints of such a Service himself may give them whatever addresses.
    found = [] if anywhere else list(_families(spec))
    for_whom = (namespace_of(obj), name_of(obj))
    ips = spec.get("clusterIPs") or []
    wanted = spec.get("clusterIP") or (ips[0] if ips else "")
    if wanted != (own or {}).get("clusterIP") or not wanted:
        wanted = _address(core, call, wanted, for_whom, found)
    if wanted:
        spec["clusterIP"] = wanted
        spec["clusterIPs"] = [wanted]
    nodeports.allocate(core, call, spec, own or {}, for_whom, found)
    if found:
        raise invalid("Service", "", obj["metadata"].get("name", ""), found)
    return {**obj, "spec": spec}


def _families(spec: Object) -> Iterator[Cause]:
    """Yield what asks for another family of addresses than IPv4."""
    policy = spec.get("ipFamilyPolicy")
    if policy == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        yield causes.invalid("spec.ipFamilyPolicy", policy, text)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            yield causes.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _address(core: Core, call: Call, wanted: str, owner: tuple[str, str], found: list[Cause]) -> str:
    if wanted == "None":
        return wanted
    taken = _taken(core, call, owner)
    if wanted:
        try:
            asked = ipaddress.ip_address(wanted)
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            found.append(causes.invalid("spec.clusterIPs[0]", wanted, text))
            return wanted
        path = "spec.clusterIPs"
        if asked.version != NETWORK.version:
            text = "IPv6 is not configured on this cluster"
            found.append(causes.invalid_shown(f"{path}[0]", golang.text_list([wanted]), text))
        elif asked not in NETWORK or asked in (NETWORK.network_address, NETWORK.broadcast_address):
            text = f"failed to allocate IP {wanted}: the provided network does not match the current range"
            found.append(causes.invalid_shown(path, golang.text_list([wanted]), text))
        elif wanted in taken or is_taken(core, wanted):
            text = f"failed to allocate IP {wanted}: provided IP is already allocated"
            found.append(causes.invalid_shown(path, golang.text_list([wanted]), text))
        else:
            hold(core, call, wanted, owner)
        return wanted
    first, last = _RESERVED_LOW, NETWORK.num_addresses - 2
    start = random.randrange(first, last)  # noqa: S311 - spreads, protects nothing
    for offset in range(last - first):
        address = str(NETWORK[first + (start - first + offset) % (last - first)])
        if address not in taken and not is_taken(core, address):
            hold(core, call, address, owner)
            return address
    found.append(causes.invalid("spec.clusterIPs", [], "failed to allocate a serviceIP: range is full"))
    return ""


def _taken(core: Core, call: Call, owner: tuple[str, str]) -> set[str]:
    stored = {spec_of(one.obj).get("clusterIP", "") for one in core.store.list(keys.under(SERVICES))[0]}
    return stored | held_by_others(core, call, owner)
