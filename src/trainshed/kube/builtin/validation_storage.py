"""Rules of persistent volumes, claims and storage classes.

Source of rules and texts: `pkg/apis/core/validation` and `pkg/apis/storage/validation` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.scheduling import node_selector_causes
from trainshed.kube.builtin.parts.pod.volumes import size_causes, source_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.quantity import parse
from trainshed.kube.schema.metadata import selector_causes

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
# fmt: off
_PV_SOURCES = frozenset({
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk",
    "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
})
# fmt: on


def claim_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a PersistentVolumeClaim."""
    spec = obj.get("spec") or {}
    if old is not None:
        if subresource != "status":
            yield from _claim_changes(spec, old)
        return
    yield from claim_spec_causes(spec, "spec")


def claim_spec_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a claim, one of its own or a template's."""
    yield from _access_modes(spec, path)
    yield from selector_causes(spec.get("selector"), f"{path}.selector")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield causes.required(f"{path}.resources[storage]")
    else:
        yield from size_causes(requests["storage"], f"{path}.resources[storage]")
    yield from _class_name(spec, path)
    yield from one_of(spec, path, "volumeMode", VOLUME_MODES)


def _access_modes(spec: Object, path: str) -> Iterator[Cause]:
    modes = spec.get("accessModes") or []
    if not modes:
        yield causes.required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield causes.unsupported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        yield causes.forbidden(f"{path}.accessModes", text)


def _class_name(spec: Object, path: str) -> Iterator[Cause]:
    name = spec.get("storageClassName")
    if name:
        for why in names.dns_subdomain(name):
            yield causes.invalid(f"{path}.storageClassName", name, why)


def _claim_changes(spec: Object, old: Object) -> Iterator[Cause]:
    before = old.get("spec") or {}
    ignored = {"resources", "volumeAttributesClassName"}
    if not before.get("volumeName"):
        ignored.add("volumeName")  # the binder sets it once
    if before.get("storageClassName") is None:
        ignored.add("storageClassName")  # the default class arrives late
    kept = {key: value for key, value in spec.items() if key not in ignored}
    if kept != {key: value for key, value in before.items() if key not in ignored}:
        yield causes.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            "for bound claims",
        )
    new_size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    old_size = ((before.get("resources") or {}).get("requests") or {}).get("storage")
    path = "spec.resources.requests.storage"
    if new_size is None:
        yield causes.required(path)
        return
    yield from size_causes(new_size, path)
    if old_size is None or new_size == old_size:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        text = "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        yield causes.forbidden("spec", f"{text} for bound claims")
    elif parse(new_size) < parse(old_size):
        yield causes.forbidden(path, "field can not be less than previous value")


def volume_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a PersistentVolume."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    yield from _access_modes(spec, "spec")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield causes.required("spec.capacity")
    elif set(capacity) != {"storage"}:
        odd = sorted(set(capacity) - {"storage"}) or [""]
        yield causes.unsupported("spec.capacity", odd[0], ("storage",))
    for name, amount in capacity.items():
        yield from size_causes(amount, f"spec.capacity[{name}]")
    yield from one_of(spec, "spec", "persistentVolumeReclaimPolicy", _RECLAIM)
    yield from one_of(spec, "spec", "volumeMode", VOLUME_MODES)
    yield from _class_name(spec, "spec")
    sources = [key for key in spec if key in _PV_SOURCES]
    if not sources:
        yield causes.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        yield causes.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    for key in sources[:1]:
        if key == "local" and not spec[key].get("path"):
            yield causes.required("spec.local.path")
        yield from source_causes(key, spec[key], f"spec.{key}")
    required = (spec.get("nodeAffinity") or {}).get("required")
    if required is not None:
        yield from node_selector_causes(required, "spec.nodeAffinity.required.nodeSelectorTerms")
    elif "local" in sources:
        yield causes.required("spec.nodeAffinity", "Local volume requires node affinity")
    if old is not None:
        before = old.get("spec") or {}
        if {key: spec.get(key) for key in _PV_SOURCES} != {key: before.get(key) for key in _PV_SOURCES}:
            text = "spec.persistentvolumesource is immutable after creation"
            yield causes.forbidden("spec.persistentvolumesource", text)
        if spec.get("volumeMode") != before.get("volumeMode"):
            yield causes.invalid("spec.volumeMode", spec.get("volumeMode"), "field is immutable")


def storage_class_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a StorageClass."""
    provisioner = obj.get("provisioner")
    if not provisioner:
        yield causes.required("provisioner")
    else:
        for why in names.qualified_name(provisioner.lower()):
            yield causes.invalid("provisioner", provisioner, why)
    for key in obj.get("parameters") or {}:
        if not key:
            yield causes.invalid("parameters", key, "field can not be empty.")
    yield from one_of(obj, "", "reclaimPolicy", ("Delete", "Retain"))
    yield from one_of(obj, "", "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    if old is not None:
        for field in ("parameters", "provisioner", "reclaimPolicy"):
            if (obj.get(field) or None) != (old.get(field) or None):
                yield causes.forbidden(field, f"updates to {field} are forbidden.")
        if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
            yield causes.invalid("volumeBindingMode", obj.get("volumeBindingMode"), "field is immutable")
