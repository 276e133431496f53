"""Namespaces: each carries its name as a label, and a finalizer until it is empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import path
from trainshed.kube.meta.objects import Object, metadata_of, name_of, spec_of, status_of
from trainshed.kube.meta.resourceinfo import ALL_VERBS, SubresourceInfo
from trainshed.kube.meta.resources import NAMESPACES

_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_VERBS = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")


def _defaults(obj: Object) -> None:
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
    setdefault(obj.setdefault("status", {}), "phase", "Active")


def _identify(obj: Object) -> Object:
    """Return a new Namespace with the finalizer that keeps it until it is empty."""
    finalizers = list(spec_of(obj).get("finalizers") or ())
    if "kubernetes" in finalizers:
        return obj
    return {**obj, "spec": {**spec_of(obj), "finalizers": [*finalizers, "kubernetes"]}}


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with the finalizers that keep a Namespace, and with its phase."""
    if subresource == "status":
        phase = status_of(obj).get("phase") or ""
        leaving = bool(metadata_of(obj).get("deletionTimestamp"))
        if phase != ("Terminating" if leaving else "Active"):
            allowed, state = ("Terminating", "not ") if leaving else ("Active", "")
            text = f"may only be '{allowed}' if `deletionTimestamp` is {state}empty"
            yield causes.invalid("status.Phase", phase, text)
        return
    for index, finalizer in enumerate(spec_of(obj).get("finalizers") or ()):
        path = f"spec.finalizers[{index}]" if subresource == "finalize" else "spec.finalizers"
        for why in names.qualified_name(finalizer):
            yield causes.invalid(path, finalizer, why)
        if "/" not in finalizer and finalizer not in _FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield causes.invalid(path, finalizer, text)


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), status_of(obj).get("phase", ""), age(obj, now)]


KIND = Builtin(
    info=row(
        NAMESPACES, "ns", verbs=_VERBS, subresources={"finalize": SubresourceInfo(("update",)), **STATUS}
    ),
    does="deletion removes what is in it; each gets a default ServiceAccount and the CA's ConfigMap; "
    "labels of Pod Security are honoured",
    name_rule=names.dns_label,
    defaults=_defaults,
    identify=_identify,
    check=_check,
    columns=Columns(define("Name, Status, Age"), _row),
    fields={"status.phase": path("status", "phase"), "name": path("metadata", "name")},
    viewed=("",),
    returns_deleted=True,
)
