"""What the store has on disk: of which images and steps of builds, and which of them may go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainshed.cluster.images.oci import Descriptor, InvalidImage
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.names import is_pinned, is_pulled
from trainshed.cluster.images.store.notes import noted_by_pods
from trainshed.cluster.images.store.space import Item
from trainshed.cluster.images.store.store import ImageStore, Remembered, StoredImage

RUNS = "pods run in it"
PINNED = "pinned"
MADE_HERE = "made here"


class Usage(msgspec.Struct, frozen=True):
    """What there is, and what each part of it takes: `sizes` in bytes."""

    items: tuple[Item, ...]
    sizes: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def reclaimable(self) -> int:
        """How many bytes are of what may go, and of nothing else."""
        kept = {part for item in self.items if item.kept for part in item.parts}
        return sum(size for part, size in self.sizes.items() if part not in kept)

    def of(self, image: StoredImage) -> Item | None:
        """Return the image's item."""
        return next((item for item in self.items if item.name == image.descriptor.digest), None)

    def size_of(self, item: Item) -> int:
        """Return how many bytes the item has on disk, those that it shares with others included."""
        return sum(self.sizes.get(part, 0) for part in item.parts)


def usage_of(store: ImageStore, pods: Path) -> Usage:
    """Return what the store has. `pods` holds the notes of pods. Raises InvalidImage where the index is damaged."""
    sizes = {_layer(name): size for name, size in store.layers.sizes().items()}
    if store.paths.blobs.is_dir():
        sizes |= {_blob(path.name): path.stat().st_size for path in store.paths.blobs.iterdir()}
    noted = noted_by_pods(pods)
    items = [*_images(store, noted), *_steps(store)]
    items += (
        Item(f"pod {number}", frozenset(map(_layer, one)), kept=RUNS) for number, one in enumerate(noted)
    )
    return Usage(tuple(items), sizes)


def _images(store: ImageStore, noted: list[set[str]]) -> Iterator[Item]:
    named: dict[str, list[Descriptor]] = {}
    for one in store.names.all().values():
        named.setdefault(one.digest, []).append(one)
    for digest, names in named.items():
        parts, layers = {_blob(digest)}, set[str]()
        try:
            image = store.image(names[0])
        except (MissingBlob, InvalidImage):
            image = None
        if image is not None:
            layers = {_bare(diff_id) for diff_id in image.config.rootfs.diff_ids}
            parts |= {_blob(image.id), *(_blob(layer.digest) for layer in image.manifest.layers)}
            parts |= set(map(_layer, layers))
        yield Item(digest, frozenset(parts), store.used_at(names[0]), _why_kept(names, layers, noted))


def _why_kept(names: list[Descriptor], layers: set[str], noted: list[set[str]]) -> str:
    if any(map(is_pinned, names)):
        return PINNED
    if not all(map(is_pulled, names)):
        return MADE_HERE
    return RUNS if layers and any(layers <= one for one in noted) else ""


def _steps(store: ImageStore) -> Iterator[Item]:
    if not store.paths.cache.is_dir():
        return
    for file in store.paths.cache.iterdir():
        try:
            digests = msgspec.json.decode(file.read_bytes(), type=Remembered).digests
            used_at = file.stat().st_mtime
        except (OSError, msgspec.DecodeError):
            continue
        parts = {part(_bare(digest)) for digest in digests for part in (_blob, _layer)}
        yield Item(file.name, frozenset(parts), used_at, is_step=True)


def _bare(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _blob(name: str) -> str:
    return f"blobs/{_bare(name)}"


def _layer(name: str) -> str:
    return f"layers/{name}"
