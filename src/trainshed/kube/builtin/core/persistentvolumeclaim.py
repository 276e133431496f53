"""PersistentVolumeClaims: hardly anything but the request may change later, and that only grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.claims import (
    OLD_CLASS,
    OLD_CLASS_WARNING,
    claim_defaults,
    claim_spec_causes,
    class_of,
    keep_finalizer,
    phase,
    with_sources,
)
from trainshed.kube.builtin.parts.columns import UNSET, Columns, access_modes, age, define
from trainshed.kube.builtin.parts.pod.volumes import size_causes
from trainshed.kube.builtin.parts.pod.warnings import claim_spec_warnings
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS


def _identify(obj: Object) -> Object:
    out = {**obj, "metadata": dict(obj["metadata"]), "spec": with_sources(spec_of(obj))}
    keep_finalizer(out, "kubernetes.io/pvc-protection")
    return out


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a PersistentVolumeClaim."""
    spec = spec_of(obj)
    if old is not None:
        if subresource != "status":
            yield from _changes(spec, old)
        return
    yield from claim_spec_causes(spec, "spec")


def _changes(spec: Object, old: Object) -> Iterator[Cause]:
    before = spec_of(old)
    ignored = {"volumeAttributesClassName"}
    if not before.get("volumeName"):
        ignored.add("volumeName")  # the binder sets it once
    if before.get("storageClassName") is None:
        ignored.add("storageClassName")  # the default class arrives late

    def kept(claim: Object) -> Object:
        resources = dict(section(claim, "resources"))
        requests = {
            name: amount for name, amount in section(resources, "requests").items() if name != "storage"
        }
        resources["requests"] = requests
        return {**{key: value for key, value in claim.items() if key not in ignored}, "resources": resources}

    if kept(spec) != kept(before):
        yield causes.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            "for bound claims",
        )
    new_size = section(spec, "resources", "requests").get("storage")
    old_size = section(before, "resources", "requests").get("storage")
    capacity = section(status_of(old), "capacity").get("storage") or 0
    path = "spec.resources.requests.storage"
    if new_size is None:
        yield causes.required(path)
        return
    yield from size_causes(new_size, path)
    if old_size is None or new_size == old_size:
        return
    if status_of(old).get("phase") != "Bound":
        text = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        yield causes.forbidden("spec", f"{text} for bound claims")
    elif parse(new_size) < parse(old_size) and parse(new_size) <= parse(capacity):
        # As with RecoverVolumeExpansionFailure: a size that was never reached may be taken back.
        yield causes.forbidden(path, "field can not be less than status.capacity")


def _row(obj: Object, now: float) -> list[Any]:
    claim = spec_of(obj)
    bound = bool(claim.get("volumeName"))
    return [
        name_of(obj),
        phase(obj),
        claim.get("volumeName", ""),
        section(obj, "status", "capacity").get("storage", "0") if bound else "",
        access_modes(status_of(obj).get("accessModes")) if bound else "",
        class_of(obj),
        claim.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        claim.get("volumeMode") or UNSET,
    ]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    if OLD_CLASS in section(obj, "metadata", "annotations"):
        yield OLD_CLASS_WARNING
    yield from claim_spec_warnings(spec_of(obj), "spec")


KIND = Builtin(
    info=row(PERSISTENTVOLUMECLAIMS, "pvc", subresources=STATUS),
    does="bound to a fitting volume, or provisioned as a directory",
    lacks="capacity is not enforced; claims grow in name only",
    defaults=claim_defaults,
    identify=_identify,
    check=_check,
    warns=_warns,
    columns=Columns(
        define(
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, "
            "VolumeMode*"
        ),
        _row,
    ),
    viewed=("", "status"),
    edited=("",),
    returns_deleted=True,
)
