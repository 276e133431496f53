"""configMap and secret volumes: the files that an object's keys become. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainshed.cluster.node import podfields
from trainshed.cluster.node.references import References
from trainshed.cluster.node.volumes.atomic import File, check_path
from trainshed.cluster.node.volumes.volume import MountError

DEFAULT_MODE = 0o644


def configmap_files(
    source: Mapping[str, Any], references: References, namespace: str, default_mode: int | None = None
) -> dict[str, File]:
    """Return the files of a configMap source. Raises MountError."""
    name = source.get("name", "")
    obj = references.get("configmaps", name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(f'configmap "{name}" not found')
    return select(podfields.configmap_bytes(obj), source, f"configmap {namespace}/{name}", default_mode)


def secret_files(
    source: Mapping[str, Any], references: References, namespace: str, default_mode: int | None = None
) -> dict[str, File]:
    """Return the files of a secret source (`secretName` in a volume, `name` when projected)."""
    name = source.get("secretName") or source.get("name", "")
    obj = references.get("secrets", name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(f'secret "{name}" not found')
    return select(podfields.secret_bytes(obj), source, f"secret {namespace}/{name}", default_mode)


def select(
    content: Mapping[str, bytes], source: Mapping[str, Any], what: str, default_mode: int | None
) -> dict[str, File]:
    """Return every key as a file, or only `items` at their paths and with their modes."""
    mode = source.get("defaultMode", default_mode if default_mode is not None else DEFAULT_MODE)
    items = source.get("items")
    if not items:
        return {key: File(data, mode) for key, data in content.items()}
    out = {}
    for item in items:
        key, path = item["key"], item["path"]
        if key not in content:
            if source.get("optional"):
                continue
            raise MountError(f"{what}: references non-existent key: {key}")
        try:
            check_path(path)
        except ValueError as error:
            raise MountError(f"{what}: {error}") from error
        out[path] = File(content[key], item.get("mode", mode))
    return out
