"""PersistentVolumes: exactly one source, which stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts import nodelabels
from trainshed.kube.builtin.parts.claims import (
    OLD_CLASS,
    OLD_CLASS_WARNING,
    VOLUME_MODES,
    access_mode_causes,
    class_name_causes,
    class_of,
    keep_finalizer,
    phase,
)
from trainshed.kube.builtin.parts.columns import UNSET, Columns, access_modes, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault, source_defaults
from trainshed.kube.builtin.parts.pod.scheduling import node_selector_causes
from trainshed.kube.builtin.parts.pod.volumes import size_causes, source_causes
from trainshed.kube.builtin.parts.pod.warnings import DEPRECATED
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of, status_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMES

_RECLAIM = ("Delete", "Recycle", "Retain")


# fmt: off
_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # in the order in which they are looked at
# fmt: on


_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
# fmt: off
_WITH_MOUNT_OPTIONS = {
    "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs",
    "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
}
# fmt: on


def _with_current_labels(place: Any) -> Any:
    """Return a node affinity with its labels by their names of today: the one change that a volume's place may go
    through."""
    if isinstance(place, dict):
        renamed = {key: _with_current_labels(value) for key, value in place.items()}
        if isinstance(renamed.get("key"), str):
            renamed["key"] = nodelabels.CURRENT.get(renamed["key"], renamed["key"])
        return renamed
    return [_with_current_labels(item) for item in place] if isinstance(place, list) else place


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "persistentVolumeReclaimPolicy", "Retain")
    setdefault(spec, "volumeMode", "Filesystem")
    source_defaults(spec)
    setdefault(obj.setdefault("status", {}), "phase", "Pending")


def _identify(obj: Object) -> Object:
    out = {**obj, "metadata": dict(obj["metadata"])}
    keep_finalizer(out, "kubernetes.io/pv-protection")
    return out


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a PersistentVolume."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    yield from access_mode_causes(spec, "spec", why="")
    capacity = section(spec, "capacity")
    if not capacity:
        yield causes.required("spec.capacity")
    if set(capacity) != {"storage"}:
        shown = golang.amounts("core.ResourceList", spec.get("capacity"))
        text = f'Unsupported value: {shown}: supported values: "storage"'
        yield Cause("FieldValueNotSupported", text, "spec.capacity")
    for name, amount in capacity.items():
        yield from size_causes(amount, f"spec.capacity[{name}]")
    yield from one_of(spec, "spec", "persistentVolumeReclaimPolicy", _RECLAIM)
    yield from one_of(spec, "spec", "volumeMode", VOLUME_MODES)
    yield from class_name_causes(spec, "spec")
    affinity = spec.get("nodeAffinity")
    if affinity is not None and affinity.get("required") is None:
        text = "must specify required node constraints"
        yield causes.required("spec.nodeAffinity.required", text)
    elif affinity is not None:
        yield from node_selector_causes(affinity["required"], "spec.nodeAffinity.required.nodeSelectorTerms")
    sources = [key for key in _SOURCES if key in spec]
    if not sources:
        yield causes.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        yield causes.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    if _MOUNT_OPTIONS in section(obj, "metadata", "annotations") and not _WITH_MOUNT_OPTIONS & set(sources):
        text = "may not specify mount options for this volume type"
        yield causes.forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", text)
    for key in sources[:1]:
        if key == "local" and not spec[key].get("path"):
            yield causes.required("spec.local.path")
        yield from source_causes(key, spec[key], f"spec.{key}")
    if spec.get("nodeAffinity") is None and "local" in sources:
        yield causes.required("spec.nodeAffinity", "Local volume requires node affinity")
    if old is not None:
        before = spec_of(old)
        if {key: spec.get(key) for key in _SOURCES} != {key: before.get(key) for key in _SOURCES}:
            text = "spec.persistentvolumesource is immutable after creation"
            yield causes.forbidden("spec.persistentvolumesource", text)
        if spec.get("volumeMode") != before.get("volumeMode"):
            yield causes.invalid("volumeMode", spec.get("volumeMode"), "field is immutable")
        placed = before.get("nodeAffinity")
        if placed is not None and affinity not in (placed, _with_current_labels(placed)):
            shown = '"null"'
            if affinity is not None:  # Kubernetes prints a pointer here, of another value each time
                shown = "core.VolumeNodeAffinity{Required:(*core.NodeSelector)(0xc000000000)}"
            text = "field is immutable, except for updating from beta label to GA"
            yield causes.invalid_shown("nodeAffinity", shown, text)


def _row(obj: Object, now: float) -> list[Any]:
    volume = spec_of(obj)
    claim = volume.get("claimRef")
    return [
        name_of(obj),
        section(volume, "capacity").get("storage", "0"),
        access_modes(volume.get("accessModes")),
        volume.get("persistentVolumeReclaimPolicy", ""),
        phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        class_of(obj),
        volume.get("volumeAttributesClassName") or UNSET,
        status_of(obj).get("reason", ""),
        age(obj, now),
        volume.get("volumeMode") or UNSET,
    ]


_OLD_SOURCES = {
    field: text for field, text in DEPRECATED.items() if field not in ("gitRepo", "flocker", "quobyte")
}
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    spec, notes = spec_of(obj), section(obj, "metadata", "annotations")
    if OLD_CLASS in notes:
        yield OLD_CLASS_WARNING
    if _MOUNT_OPTIONS in notes:
        text = 'deprecated since v1.31; use "mountOptions" attribute instead'
        yield f"metadata.annotations[{_MOUNT_OPTIONS}]: {text}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    for index, term in enumerate(objects(section(spec, "nodeAffinity", "required"), "nodeSelectorTerms")):
        at = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions"
        yield from nodelabels.key_warnings(term, "matchExpressions", at)
    for field, (name, text) in _OLD_SOURCES.items():
        if spec.get(field) is not None:
            yield f"spec.{name}: {text}"


KIND = Builtin(
    info=row(PERSISTENTVOLUMES, "pv", subresources=STATUS),
    does="hostPath and local; claims, reclaim policies Retain and Delete",
    lacks="directories only; capacity is not enforced",
    defaults=_defaults,
    identify=_identify,
    check=_check,
    warns=_warns,
    columns=Columns(
        define(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, "
            "VolumeAttributesClass, Reason, Age, VolumeMode*"
        ),
        _row,
    ),
    returns_deleted=True,
)
