"""DefaultStorageClass: a claim that names no class gets the default one. PersistentVolumeClaimResize: one grows only if
its class allows it."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.builtin.parts.claims import OLD_CLASS, class_of, with_sources
from trainshed.kube.builtin.parts.storageclasses import default_class
from trainshed.kube.meta.errors import forbidden
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, STORAGECLASSES

_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)


async def admit_claim(core: Core, call: Call, obj: Object) -> Object:
    """Return a claim whose class is decided; one that says `storageClassName: ""` wants none."""
    spec = spec_of(obj)
    annotations = section(obj, "metadata", "annotations")
    if "storageClassName" in spec or OLD_CLASS in annotations:
        return obj
    classes, _ = core.store.list(keys.under(STORAGECLASSES))
    chosen = default_class(stored.obj for stored in classes)
    return {**obj, "spec": {**spec, "storageClassName": chosen}} if chosen else obj


def admit_claim_update(core: Core, call: Call, old: Object, new: Object) -> Object:
    """Return the claim. Raises `ApiError` 403 for one that is to grow and cannot."""
    before, after = (section(spec_of(each), "resources", "requests").get("storage", 0) for each in (old, new))
    if parse(after) > parse(before) and status_of(old).get("phase") == "Bound":
        stored = core.store.get(keys.of(STORAGECLASSES, None, class_of(new)))
        if stored is None or not stored.obj.get("allowVolumeExpansion"):
            raise forbidden(PERSISTENTVOLUMECLAIMS.plural, "", name_of(new), _FIXED)
    spec = spec_of(new)
    if spec_of(old).get("dataSourceRef") is not None:
        return {**new, "spec": with_sources(spec)}
    return new
