"""Nodes. A kubelet registers with a status, so a create keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, proxy, row
from trainshed.kube.builtin.parts.addresses import cidr_causes, network_warnings
from trainshed.kube.builtin.parts.columns import NONE, UNKNOWN, Columns, age, define
from trainshed.kube.builtin.parts.pod.scheduling import TAINT_EFFECTS
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import path
from trainshed.kube.meta.objects import Object, condition, name_of, section, spec_of, status_of
from trainshed.kube.meta.resources import NODES

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _defaults(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("podCIDR"):
        spec["podCIDRs"] = [spec["podCIDR"], *(spec.get("podCIDRs") or ())[1:]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Node's taints and fixed fields."""
    spec = spec_of(obj)
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        at = f"metadata.taints[{index}]"  # as upstream says it
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        for why in names.qualified_name(key):
            yield causes.invalid(f"{at}.key", key, why)
        for why in names.label_value(taint.get("value") or ""):
            yield causes.invalid(f"{at}.value", taint.get("value"), why)
        if not effect:
            yield causes.required(f"{at}.effect")
        elif effect not in TAINT_EFFECTS:
            yield causes.unsupported(f"{at}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            value = taint.get("value")
            shown = f"Key:{golang.text(key)}, Value:{golang.text(value)}, Effect:{golang.text(effect)}"
            why = "taints must be unique by key and effect pair"
            text = f"Duplicate value: core.Taint{{{shown}, TimeAdded:<nil>}}: {why}"
            yield Cause("FieldValueDuplicate", text, at)
        seen.add((key, effect))
    for index, text in enumerate(spec.get("podCIDRs") or ()):
        yield from cidr_causes(text, f"spec.podCIDRs[{index}]")
    before = spec_of(old or {})
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield causes.forbidden(
            "spec.providerID", 'node updates may not change providerID except from "" to valid'
        )


def _node_status(obj: Object) -> str:
    ready = condition(obj, "Ready")
    text = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if spec_of(obj).get("unschedulable") else text


def _node_roles(obj: Object) -> str:
    found = set()
    for key, value in section(obj, "metadata", "labels").items():
        if key.startswith(_ROLE_PREFIX) and len(key) > len(_ROLE_PREFIX):
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address(obj: Object, kind: str) -> str:
    for item in status_of(obj).get("addresses") or ():
        if item.get("type") == kind:
            return str(item.get("address", ""))
    return NONE


def _row(obj: Object, now: float) -> list[Any]:
    info = section(obj, "status", "nodeInfo")
    return [
        name_of(obj),
        _node_status(obj),
        _node_roles(obj),
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    spec = spec_of(obj)
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, network in enumerate(spec.get("podCIDRs") or ()):
        yield from network_warnings(network, f"spec.podCIDRs[{index}]")


KIND = Builtin(
    info=row(NODES, "no", subresources={**proxy("NodeProxyOptions"), **STATUS}),
    does="this machine, `--nodes` times; taints, labels and cordon are honoured",
    lacks="nodes are those of this machine",
    status_on_create=True,
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(
        define(
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, "
            "Container-Runtime*"
        ),
        _row,
    ),
    fields={"spec.unschedulable": path("spec", "unschedulable", absent="false")},
)
