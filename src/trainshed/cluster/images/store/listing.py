"""What a node says that it has: the images of the store, as a kubelet lists them in the status of its Node."""

from __future__ import annotations

from typing import Any

from trainshed.cluster.images.oci import Descriptor, InvalidImage
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.store import ImageStore

MOST = 50
"""How many images a status lists, the largest (nodeStatusMaxImages of a kubelet)."""


def listed(store: ImageStore) -> list[dict[str, Any]]:
    """Return `status.images` of a Node: the names of each image, by its digest first, and the bytes of its layers.

    Images that are damaged are left out; all of them where the index is.
    """
    by_digest: dict[str, tuple[Descriptor, list[str]]] = {}
    try:
        known = store.all()
    except InvalidImage:
        return []
    for name, manifest in known.items():
        _, names = by_digest.setdefault(manifest.digest, (manifest, []))
        full = f"{name.repository}@{manifest.digest}"
        names += [each for each in (full, str(name)) if each not in names]
    found: list[tuple[int, list[str]]] = []
    for manifest, names in by_digest.values():
        try:
            size = store.image(manifest).size
        except (MissingBlob, InvalidImage):
            continue
        names.sort(key=lambda name: ("@" not in name, name))
        found.append((-size, names))
    return [{"names": names, "sizeBytes": -size} for size, names in sorted(found)[:MOST]]
