"""DefaultStorageClass: a claim that names no class gets the default one."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.objects import Object

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


async def admit_claim(core: Core, call: Call, obj: Object) -> Object:
    """Return a claim whose class is decided; one that says `storageClassName: ""` wants none."""
    del call
    spec = obj.get("spec") or {}
    annotations = obj["metadata"].get("annotations") or {}
    if "storageClassName" in spec or _OLD_CLASS in annotations:
        return obj
    chosen = default_class(core)
    return {**obj, "spec": {**spec, "storageClassName": chosen}} if chosen else obj


def default_class(core: Core) -> str | None:
    """Return the name of the default StorageClass; the newest when several are marked, as upstream."""
    found = [
        (stored.obj["metadata"]["creationTimestamp"], stored.obj["metadata"]["name"])
        for stored in core.store.list("/storage.k8s.io/storageclasses/")[0]
        if (stored.obj["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    ]
    return max(found)[1] if found else None
