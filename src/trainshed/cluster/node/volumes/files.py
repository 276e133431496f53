"""Files of volumes, and which keys of an object become files. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

DEFAULT_MODE = 0o644


class File(msgspec.Struct, frozen=True):
    """Content and permission bits of a file."""

    content: bytes
    mode: int = DEFAULT_MODE


def check_path(path: str) -> None:
    """Raise ValueError for a path that would leave the volume."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or pure.parts[0].startswith(".."):
        raise ValueError(f"invalid path: {path!r}")


def select(content: Mapping[str, bytes], source: Mapping[str, Any], default_mode: int) -> dict[str, File]:
    """Return every key as a file, or only `items` at their paths and with their modes.

    Raises ValueError for a key that is not there, unless the source is optional, and for a path that leaves
    the volume.
    """
    mode = source.get("defaultMode", default_mode)
    items = source.get("items")
    if not items:
        return {key: File(data, mode) for key, data in content.items()}
    out = {}
    for item in items:
        key, path = item["key"], item["path"]
        if key not in content:
            if source.get("optional"):
                continue
            raise ValueError(f"references non-existent key: {key}")
        check_path(path)
        out[path] = File(content[key], item.get("mode", mode))
    return out
