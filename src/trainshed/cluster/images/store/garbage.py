"""Deleting what nothing refers to: no name, no step of a build that is remembered, no pod."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.store import confined
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.notes import noted_by_pods
from trainshed.cluster.images.store.paths import StorePaths
from trainshed.cluster.images.store.space import MIN_AGE_SECONDS, Space, first_to_go
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.images.store.usage import usage_of


class Busy(Exception):
    """Something is being added to the store: nothing can be deleted now."""


class Shrunk(msgspec.Struct, frozen=True):
    """What had to go and what went, in bytes, layers unpacked included."""

    wanted: int = 0
    bytes: int = 0
    images: tuple[str, ...] = ()

    @property
    def too_little(self) -> bool:
        """Whether more had to go than may go."""
        return self.bytes < self.wanted


class Freed(msgspec.Struct, frozen=True):
    """What was deleted. `bytes` are those of blobs; layers unpacked are not measured."""

    blobs: int = 0
    bytes: int = 0
    layers: int = 0


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


def shrink(store: ImageStore, pods: Path, space: Space, now: float, *, wanted: int | None = None) -> Shrunk:
    """Delete what was not used for the longest time until images are within their budget.

    `now` is in seconds since the epoch. With `wanted` so many bytes go whatever the budget, as far as there are any.

    Raises:
        Busy: something is being added.
        InvalidImage: the index is damaged.
        OSError: something cannot be deleted.
    """
    try:
        with store.paths.locked("garbage", wait=False):
            usage = usage_of(store, pods)
            excess = space.excess(usage.bytes, space.budget(store.paths.root)) if wanted is None else wanted
            if excess <= 0:
                return Shrunk()
            chosen = first_to_go(usage.items, usage.sizes, excess, now - MIN_AGE_SECONDS)
            gone = {item.name for item in chosen.items if not item.is_step}
            names = [name for name, one in store.names.all().items() if one.digest in gone]
            store.names.remove(*names)
            for item in chosen.items:
                if item.is_step:
                    (store.paths.cache / item.name).unlink(missing_ok=True)
            _collect(store, pods, store.remembered())
            return Shrunk(excess, chosen.bytes, tuple(sorted(names)))
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
    names = {digest.removeprefix("sha256:") for digest in kept}.union(*noted_by_pods(pods))
    paths: StorePaths = store.paths
    blobs = [path for path in paths.blobs.iterdir() if path.name not in names]
    size = sum(path.stat().st_size for path in blobs)
    for path in blobs:
        path.unlink()
    layers = [path.name for path in paths.layers.iterdir() if path.name not in names]
    confined.remove(paths.layers, *layers)
    for notes in (paths.sizes, paths.used):
        for path in notes.iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)
    for left in paths.partial.iterdir():
        if left.is_dir():
            confined.remove(paths.partial, left.name)
        else:
            left.unlink()
    return Freed(len(blobs), size, len(layers))
