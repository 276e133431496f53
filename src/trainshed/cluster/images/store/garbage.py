"""Deleting what nothing refers to: no name, no step of a build that is remembered, no pod."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.store import confined
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.paths import StorePaths
from trainshed.cluster.images.store.store import ImageStore

NOTE = "layers.json"
"""In a pod's directory: the layers that its containers stand on."""


class Busy(Exception):
    """Something is being added to the store: nothing can be deleted now."""


class Freed(msgspec.Struct, frozen=True):
    """What was deleted. `bytes` are those of blobs; layers unpacked are not measured."""

    blobs: int = 0
    bytes: int = 0
    layers: int = 0


def note(pod: Path, layers: Iterable[Path]) -> None:
    """Note that a pod stands on these layers, beside those noted before. Call with `StorePaths.in_use` held."""
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


def collect(store: ImageStore, pods: Path, remembered: Iterable[str] = ()) -> Freed:
    """Delete blobs and layers that nothing refers to.

    `pods` holds the notes of pods; `remembered` are digests of blobs, and diff ids, that a build may want again.

    Raises:
        Busy: something is being added.
        OSError: something cannot be deleted.
    """
    try:
        with store.paths.locked("garbage", wait=False):
            return _collect(store, pods, set(remembered))
    except BlockingIOError:
        raise Busy("images are being added") from None


def _collect(store: ImageStore, pods: Path, kept: set[str]) -> Freed:
    for one in store.names.all().values():
        kept.add(one.digest)
        with contextlib.suppress(MissingBlob, InvalidImage):
            image = store.image(one)
            kept |= {
                image.id,
                *(layer.digest for layer in image.manifest.layers),
                *image.config.rootfs.diff_ids,
            }
    store.paths.prepare()
    names = {digest.removeprefix("sha256:") for digest in kept}
    if pods.is_dir():
        for pod in pods.iterdir():
            names.update(noted(pod))
    paths: StorePaths = store.paths
    blobs = [path for path in paths.blobs.iterdir() if path.name not in names]
    size = sum(path.stat().st_size for path in blobs)
    for path in blobs:
        path.unlink()
    layers = [path.name for path in paths.layers.iterdir() if path.name not in names]
    confined.remove(paths.layers, *layers)
    for left in paths.partial.iterdir():
        if left.is_dir():
            confined.remove(paths.partial, left.name)
        else:
            left.unlink()
    return Freed(len(blobs), size, len(layers))
