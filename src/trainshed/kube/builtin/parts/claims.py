"""What volumes, claims and claim templates share.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.pod.volumes import size_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.schema.metadata import selector_causes

_DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""Group and kind of what `dataSource` may name; anything else is for `dataSourceRef`."""
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def claim_defaults(obj: Object) -> None:
    """Fill in a PersistentVolumeClaim, or a claim template of a StatefulSet."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    for source in (spec.get("dataSource"), spec.get("dataSourceRef")):
        if source is not None:
            source.setdefault("apiGroup", None)
    spec.setdefault("resources", {})
    setdefault(obj.setdefault("status", {}), "phase", "Pending")


def with_sources(spec: Object) -> Object:
    """Return the spec of a new claim with each of its two fields of a data source given by the other.

    What other namespaces hold cannot be named (alpha, off). Alone, `dataSource` takes claims and snapshots only.
    """
    out = {key: value for key, value in spec.items() if not key.startswith("dataSource")}
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace"):
        reference = None
    if (
        source is not None
        and reference is None
        and (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCES
    ):
        source = None
    if source is not None or reference is not None:
        out["dataSource"] = {**(source or reference or {})}
        out["dataSourceRef"] = {**(reference or source or {})}
    return out


def keep_finalizer(obj: Object, finalizer: str) -> None:
    """Add a protection finalizer, but never to an object that is on its way out."""
    meta = obj.setdefault("metadata", {})
    if meta.get("deletionTimestamp"):
        return
    finalizers = meta.get("finalizers") or []
    if finalizer not in finalizers:
        meta["finalizers"] = [*finalizers, finalizer]


def claim_spec_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the spec of a claim, one of its own or a template's."""
    yield from access_mode_causes(spec, path)
    yield from selector_causes(spec.get("selector"), f"{path}.selector")
    requests = section(spec, "resources", "requests")
    if "storage" not in requests:
        yield causes.required(f"{path}.resources[storage]")
    else:
        yield from size_causes(requests["storage"], f"{path}.resources[storage]")
    yield from class_name_causes(spec, path)
    if spec["volumeMode"] not in VOLUME_MODES:
        yield causes.unsupported(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    yield from _sources(spec, path)


def _sources(spec: Object, path: str) -> Iterator[Cause]:
    for field in ("dataSource", "dataSourceRef"):
        source, at = spec.get(field), f"{path}.{field}"
        if source is None:
            continue
        if not source.get("name"):
            yield causes.required(f"{at}.name")
        if not source.get("kind"):
            yield causes.required(f"{at}.kind")
        group = source.get("apiGroup") or ""
        if not group and source.get("kind") != "PersistentVolumeClaim":
            yield causes.invalid(at, source.get("kind") or "", "")
        for why in names.dns_subdomain(group) if group else ():
            yield causes.invalid(f"{at}.apiGroup", group, why)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is not None and source != reference:
        # Kubernetes prints a pointer here, of another value each time.
        yield causes.invalid_shown(path, "dataSource", "must match dataSourceRef")


def access_mode_causes(
    spec: Object, path: str, why: str = "at least 1 access mode is required"
) -> Iterator[Cause]:
    """Yield what is wrong with the access modes of a volume or a claim."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield causes.required(f"{path}.accessModes", why)
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield causes.unsupported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        yield causes.forbidden(f"{path}.accessModes", text)


def class_name_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of a storage class."""
    name = spec.get("storageClassName")
    if name:
        for why in names.dns_subdomain(name):
            yield causes.invalid(f"{path}.storageClassName", name, why)


def phase(obj: Object) -> str:
    """Return the Status cell of a volume or a claim."""
    return (
        "Terminating" if metadata_of(obj).get("deletionTimestamp") else str(status_of(obj).get("phase", ""))
    )


OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the storage class of a volume or a claim before there was a field."""
OLD_CLASS_WARNING = (
    f'metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'
)


def class_of(obj: Object) -> str:
    """Return the storage class that a volume or a claim names, in its field or in the older annotation."""
    annotations = section(obj, "metadata", "annotations")
    return annotations.get(OLD_CLASS) or spec_of(obj).get("storageClassName") or ""
