"""VolumeAttachments: what a CSI driver is asked to attach to a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.claims import access_mode_causes
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.csi import driver_name_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of
from trainshed.kube.meta.resources import Resource

_NOT_INLINE = "may not be specified in the context of inline volumes"
_EXACTLY_ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a VolumeAttachment.

    Source of rules and texts: `pkg/apis/storage/validation/validation.go` of Kubernetes.
    """
    if subresource:
        return
    spec = spec_of(obj)
    attacher = spec.get("attacher") or ""
    if not attacher:
        yield causes.required("spec.attacher")
    source = section(spec, "source")
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        yield causes.required("spec.source", _EXACTLY_ONE)
    elif volume is not None and inline is not None:
        yield causes.forbidden("spec.source", _EXACTLY_ONE)
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        yield causes.required("spec.source.persistentVolumeName", text)
    elif inline is not None:
        yield from _inline(inline)
    node = spec.get("nodeName") or ""
    for why in names.dns_subdomain(node):
        yield causes.invalid("spec.nodeName", node, why)
    if old is None:
        yield from driver_name_causes(attacher, "spec.attacher")
        for why in names.dns_subdomain(volume) if volume is not None else ():
            yield causes.invalid("spec.source.persistentVolumeName", volume, why)
    elif spec != spec_of(old):
        yield causes.invalid("spec", spec, "field is immutable")


def _inline(volume: Object) -> Iterator[Cause]:
    """Yield what is wrong with a volume that is no PersistentVolume: CSI alone, and nothing of claims."""
    at = "spec.source.inlineVolumeSpec"
    for field in ("claimRef", "capacity"):
        if volume.get(field):
            yield causes.forbidden(f"{at}.{field}", _NOT_INLINE)
    if volume.get("csi") is None:
        yield causes.required(f"{at}.csi", "has to be specified in the context of inline volumes")
    yield from access_mode_causes(volume, at)
    policy = volume.get("persistentVolumeReclaimPolicy")
    if policy and policy != "Retain":
        text = "may only be Retain in the context of inline volumes"
        yield causes.forbidden(f"{at}.persistentVolumeReclaimPolicy", text)
    for field in ("nodeAffinity", "storageClassName"):
        if volume.get(field):
            yield causes.forbidden(f"{at}.{field}", _NOT_INLINE)
    if volume.get("volumeMode") not in (None, "Filesystem"):
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield causes.forbidden(f"{at}.volumeMode", text)


def _row(obj: Object, now: float) -> list[Any]:
    spec = spec_of(obj)
    return [
        name_of(obj),
        spec.get("attacher", ""),
        section(spec, "source").get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool(status_of(obj).get("attached")),
        age(obj, now),
    ]


def _defaults(obj: Object) -> None:
    obj.setdefault("status", {}).setdefault("attached", False)


KIND = Builtin(
    info=row(
        Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
        subresources=STATUS,
        unconditional_update=False,
    ),
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Attacher, PV, Node, Attached?, Age"), _row),
    returns_deleted=True,
)
