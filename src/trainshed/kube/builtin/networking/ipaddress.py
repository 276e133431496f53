"""IPAddresses: which object holds an address, of the Services' range by the API server itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta import causes, golang, names, networks
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import IPADDRESSES

_PARENT = "spec.parentRef"


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an IPAddress: its parent is named, and stays.

    Source of rules and texts: `pkg/apis/networking/validation/validation.go` of Kubernetes.
    """
    parent = spec_of(obj).get("parentRef")
    if parent is None:
        yield causes.required(_PARENT)
    else:
        for why in names.dns_subdomain(parent["group"]) if parent.get("group") else ():
            yield causes.invalid(f"{_PARENT}.group", parent["group"], why)
        for field in ("resource", "name", "namespace"):
            if value := parent.get(field):
                for why in names.path_segment(value):
                    yield causes.invalid(f"{_PARENT}.{field}", value, why)
            elif field != "namespace":
                yield causes.required(f"{_PARENT}.{field}")
    if old is not None and parent != spec_of(old).get("parentRef"):
        fields = (("Group", "group"), ("Resource", "resource"), ("Namespace", "namespace"), ("Name", "name"))
        shown = ", ".join(f"{name}:{golang.text((parent or {}).get(field))}" for name, field in fields)
        text = f"networking.ParentReference{{{shown}}}" if parent else "(*networking.ParentReference)(nil)"
        yield causes.invalid_shown(_PARENT, text, "field is immutable")


def _row(obj: Object, now: float) -> list[Any]:
    text, parent = NONE, spec_of(obj).get("parentRef")
    if parent is not None:
        what = ".".join(part for part in (parent.get("resource"), parent.get("group")) if part)
        parts = (what.lower(), parent.get("namespace"), parent.get("name") or "")
        text = "/".join(part for part in parts if part is not None)
    return [name_of(obj), text, age(obj, now)]


KIND = Builtin(
    info=row(IPADDRESSES, "ip"),
    does="made for each Service with a cluster IP; who makes one keeps its address from Services",
    name_rule=networks.ip_address,
    check=_check,
    columns=Columns(define("Name, ParentRef"), _row),
)
