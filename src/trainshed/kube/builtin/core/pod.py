"""Pods; what they are made of is in `kube.builtin.parts.pod`."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, proxy, row
from trainshed.kube.builtin.parts.addresses import address_of, ip_causes
from trainshed.kube.builtin.parts.pod import table
from trainshed.kube.builtin.parts.pod.changes import change_causes
from trainshed.kube.builtin.parts.pod.defaults import live_pod_defaults, setdefault
from trainshed.kube.builtin.parts.pod.resizing import resize_causes
from trainshed.kube.builtin.parts.pod.rules import pod_spec_causes
from trainshed.kube.builtin.parts.pod.warnings import pod_warnings
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import path, paths
from trainshed.kube.meta.objects import Object, spec_of, status_of
from trainshed.kube.meta.resourceinfo import SubresourceInfo
from trainshed.kube.meta.resources import PODS

_PARTS = {
    **STATUS,
    "attach": SubresourceInfo(("create", "get"), "PodAttachOptions"),
    "binding": SubresourceInfo(("create",), "Binding"),
    "ephemeralcontainers": SubresourceInfo(("get", "patch", "update")),
    "eviction": SubresourceInfo(("create",), "Eviction", "policy", "v1"),
    "exec": SubresourceInfo(("create", "get"), "PodExecOptions"),
    "log": SubresourceInfo(("get",)),
    "portforward": SubresourceInfo(("create", "get"), "PodPortForwardOptions"),
    **proxy("PodProxyOptions"),
    "resize": SubresourceInfo(("get", "patch", "update")),
}
_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)


def _defaults(obj: Object) -> None:
    live_pod_defaults(setdefault(obj, "spec", {}))


def _status(status: Object, before: Object) -> Object:
    """Return a status in which `podIP` is the first of `podIPs`, and overrides them; its class of service stays."""
    out = dict(status)
    address, addresses = status.get("podIP"), status.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        out["podIPs"] = [{"ip": address}]
    elif addresses:
        out["podIP"] = addresses[0].get("ip", "")
    if not out.get("qosClass") and "qosClass" in before:
        out["qosClass"] = before["qosClass"]
    return out


def _addresses(status: Object, before: Object) -> Iterator[Cause]:
    """Yield what is wrong with the addresses that a status gives: one of each family at most."""
    hosts = status.get("hostIPs") or []
    first = hosts[0].get("ip", "") if hosts else ""
    if hosts and first != (status.get("hostIP") or ""):
        yield causes.invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
    for field, kind in (("podIPs", "PodIP"), ("hostIPs", "HostIP")):
        addresses, known = status.get(field) or (), before.get(field) or ()
        for index, address in enumerate(addresses):
            if address not in known:
                yield from ip_causes(address.get("ip"), f"status.{field}[{index}]")
        if len(addresses) > 1:
            yield from _families([each.get("ip", "") for each in addresses], f"status.{field}", kind)


def _families(given: list[str], path: str, kind: str) -> Iterator[Cause]:
    found = [address_of(text) for text in given]
    if None in found:
        wrong = found.index(None)
        text = f"failed to check for dual stack with error:invalid IP[{wrong}]: {given[wrong]}"
        yield Cause("InternalError", f"Internal error: {text}", path)
    if sorted(each.version for each in found if each is not None) != [4, 6]:
        shown = ", ".join(f"core.{kind}{{IP:{golang.text(text)}}}" for text in given)
        text = "may specify no more than one IP for each IP family"
        yield causes.invalid_shown(path, f"[]core.{kind}{{{shown}}}", text)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod, on create or against what it was."""
    spec = spec_of(obj)
    if old is None:
        yield from pod_spec_causes(spec, "spec")
        if spec.get("ephemeralContainers"):
            yield causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    elif subresource == "status":
        yield from _addresses(status_of(obj), status_of(old))
    elif subresource != "binding":
        before = spec_of(old)
        if spec != before or subresource == "resize":
            yield from pod_spec_causes(spec, "spec")
        if subresource == "resize":
            yield from resize_causes(obj, old)
        elif spec != before:
            yield from change_causes(spec, before, subresource)


def _pod_ips(obj: Object) -> str:
    addresses = status_of(obj).get("podIPs") or ()
    return ",".join(str(address.get("ip", "")) for address in addresses)


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    """Yield what is to be said of a new pod; nobody changes pods by hand."""
    if old is None:
        yield from pod_warnings(obj)


KIND = Builtin(
    info=row(PODS, "po", categories=ALL, subresources=_PARTS, generation=True),
    does="scheduled and run; see [limits](limits.md) for the fields that are not honoured",
    lacks="some fields are not honoured: an event says which",
    defaults=_defaults,
    defaults_status=False,
    status=_status,
    check=_check,
    warns=_warns,
    columns=table.COLUMNS,
    fields={
        **paths(*_FIELDS),
        "spec.hostNetwork": path("spec", "hostNetwork", absent="false"),
        "status.podIPs": _pod_ips,
    },
    viewed=("", "log", "status"),
    edited=("", "attach", "eviction", "exec", "portforward", "proxy"),
    returns_deleted=True,
)
