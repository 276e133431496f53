"""Which unpacked layers pods stand on: a file in each pod's directory."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

NOTE = "layers.json"
"""In a pod's directory: the layers that its containers stand on."""
_NOTING = threading.Lock()
"""Containers of a pod get their images in threads, and each adds to what is noted."""


def note(pod: Path, layers: Iterable[Path]) -> None:
    """Note that a pod stands on these layers, beside those noted before. Call with `StorePaths.in_use` held."""
    with _NOTING:
        names = sorted({*noted(pod), *(layer.name for layer in layers)})
        pod.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = pod / f".{NOTE}"
        temporary.write_bytes(msgspec.json.encode(names))
        temporary.replace(pod / NOTE)


def noted(pod: Path) -> list[str]:
    """Return the layers that a pod stands on."""
    try:
        return msgspec.json.decode((pod / NOTE).read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError):
        return []


def noted_by_pods(pods: Path) -> list[set[str]]:
    """Return the layers that each pod stands on whose directory is in `pods`."""
    if not pods.is_dir():
        return []
    return [names for pod in pods.iterdir() if (names := set(noted(pod)))]
