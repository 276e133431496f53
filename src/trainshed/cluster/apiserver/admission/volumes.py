"""DefaultStorageClass: a claim that names no class gets the default one."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.builtin.parts.storageclasses import default_class
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import STORAGECLASSES

_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


async def admit_claim(core: Core, call: Call, obj: Object) -> Object:
    """Return a claim whose class is decided; one that says `storageClassName: ""` wants none."""
    del call
    spec = spec_of(obj)
    annotations = section(obj, "metadata", "annotations")
    if "storageClassName" in spec or _OLD_CLASS in annotations:
        return obj
    classes, _ = core.store.list(keys.under(STORAGECLASSES))
    chosen = default_class(stored.obj for stored in classes)
    return {**obj, "spec": {**spec, "storageClassName": chosen}} if chosen else obj
