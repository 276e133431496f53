"""Rules of pod volumes.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.pod.containers import (
    FILE_FIELDS,
    field_ref_causes,
    local_path_causes,
    resource_ref_causes,
)
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import NON_NEGATIVE, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.quantity import parse

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_REQUIRED_FIELD = {
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "csi": "driver",
    "iscsi": "targetPortal",
    "image": "reference",
}
_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""In the order in which they are looked at: of two the first counts, and the other is one too many."""
_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle")


def volume_causes(volumes: list[Object], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the volumes of a pod."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume.get("name")
        if not name:
            yield causes.required(f"{at}.name")
        else:
            for why in names.dns_label(name):
                yield causes.invalid(f"{at}.name", name, why)
            if name in seen:
                yield causes.duplicate(f"{at}.name", name)
            seen.add(name)
        sources = [key for key in _SOURCES if volume.get(key) is not None]
        if not sources:
            yield causes.required(at, "must specify a volume type")
        for extra in sources[1:]:
            yield causes.forbidden(f"{at}.{extra}", "may not specify more than 1 volume type")
        for key in sources[:1]:
            yield from source_causes(key, volume[key], f"{at}.{key}")


def source_causes(kind: str, source: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with one volume source of a pod or of a persistent volume."""
    field = _REQUIRED_FIELD.get(kind)
    if field is not None and not source.get(field):
        yield causes.required(f"{path}.{field}")
    match kind:
        case "hostPath":
            where = source.get("path")
            if not where:
                yield causes.required(f"{path}.path")
            elif ".." in where.split("/"):
                yield causes.invalid(f"{path}.path", where, "must not contain '..'")
            yield from one_of(source, path, "type", HOST_PATH_TYPES)
        case "emptyDir":
            limit = source.get("sizeLimit")
            if limit is not None and parse(limit) < 0:
                yield causes.forbidden(
                    f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"
                )
        case "nfs":
            yield from _nfs(source, path)
        case "configMap" | "secret":
            yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
            yield from _items(source.get("items"), f"{path}.items")
        case "downwardAPI":
            yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
            yield from _downward(source.get("items"), f"{path}.items")
        case "projected":
            yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
            yield from _projected(source.get("sources") or (), path)


def _nfs(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("server"):
        yield causes.required(f"{path}.server")
    where = source.get("path")
    if not where:
        yield causes.required(f"{path}.path")
    elif not where.startswith("/"):
        yield causes.invalid(f"{path}.path", where, "must be an absolute path")


def _mode(mode: int | None, path: str) -> Iterator[Cause]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield causes.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _items(items: Any, path: str) -> Iterator[Cause]:
    for index, item in enumerate(items or ()):
        if not item.get("key"):
            yield causes.required(f"{path}[{index}].key")
        yield from _file(item, f"{path}[{index}]")


def _file(item: Object, path: str) -> Iterator[Cause]:
    where = item.get("path")
    if not where:
        yield causes.required(f"{path}.path")
    else:
        yield from local_path_causes(where, f"{path}.path")
    yield from _mode(item.get("mode"), f"{path}.mode")


def _downward(items: Any, path: str) -> Iterator[Cause]:
    for index, item in enumerate(items or ()):
        at = f"{path}[{index}]"
        yield from _file(item, at)
        if item.get("fieldRef") is not None:
            yield from field_ref_causes(item["fieldRef"], f"{at}.fieldRef", FILE_FIELDS)
        elif item.get("resourceFieldRef") is not None:
            if not item["resourceFieldRef"].get("containerName"):
                yield causes.required(f"{at}.resourceFieldRef.containerName")
            yield from resource_ref_causes(item["resourceFieldRef"], f"{at}.resourceFieldRef")
        else:
            yield causes.required(at, "one of fieldRef and resourceFieldRef is required")


def _projected(sources: Any, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, source in enumerate(sources):
        at = f"{path}.sources[{index}]"
        given = [key for key in _PROJECTED if source.get(key) is not None]
        for extra in given[1:]:
            yield causes.forbidden(f"{at}.{extra}", "may not specify more than 1 volume type per source")
        for key in given[:1]:
            part = source[key]
            if key in ("configMap", "secret"):
                if not part.get("name"):
                    yield causes.required(f"{at}.{key}.name")
                yield from _items(part.get("items"), f"{at}.{key}.items")
                yield from _conflicts(part, seen, path)
            elif key == "downwardAPI":
                yield from _downward(part.get("items"), f"{at}.{key}.items")
                yield from _conflicts(part, seen, path)
            elif key == "serviceAccountToken":
                yield from _token(part, f"{at}.{key}")


def _conflicts(part: Object, seen: set[str], path: str) -> Iterator[Cause]:
    """Yield the files of one source that `seen` ones have the place of, and add the others to these."""
    for item in part.get("items") or ():
        place = item.get("path") or ""
        if place in seen:
            yield causes.invalid(path, part.get("name") or place, "conflicting duplicate paths")
        elif place:
            seen.add(place)


def _token(source: Object, path: str) -> Iterator[Cause]:
    seconds = source.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        yield causes.invalid(f"{path}.expirationSeconds", seconds, text)
    elif seconds is not None and seconds > 1 << 32:
        yield causes.invalid(
            f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not source.get("path"):
        yield causes.required(f"{path}.path")
    else:
        yield from local_path_causes(source["path"], f"{path}.path")


def size_causes(amount: Any, path: str, *, positive: bool = True) -> Iterator[Cause]:
    """Yield what is wrong with a storage size."""
    try:
        value = parse(amount)
    except ValueError as error:
        yield causes.invalid(path, amount, str(error))
        return
    if value < 0 or (positive and value == 0):
        yield causes.invalid(path, amount, "must be greater than zero" if positive else NON_NEGATIVE)
