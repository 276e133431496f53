"""The image that a build ends with."""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.cluster.images import oci
from trainshed.cluster.images.building.built import Built
from trainshed.cluster.images.oci import ImageConfig, InvalidImage, Manifest, RootFs
from trainshed.cluster.images.reference import Reference
from trainshed.cluster.images.store.store import ImageStore, StoredImage


def export(store: ImageStore, built: Built, created: str, names: Sequence[Reference]) -> StoredImage:
    """Return the image of a stage, in the store under these names."""
    config = ImageConfig(
        architecture=built.base.platform.architecture,
        os=built.base.platform.os,
        variant=built.base.platform.variant,
        created=created,
        author=built.author,
        config=built.config,
        rootfs=RootFs(tuple(layer.diff_id for layer in built.layers)),
        history=built.history,
    )
    before = _same(store, built, names)
    if before is not None:
        image = before
    else:
        descriptor = store.blobs.add(config.encoded(), oci.OCI_CONFIG)
        manifest = Manifest(descriptor, tuple(layer.descriptor for layer in built.layers))
        image = store.put(manifest, None)
    for name in names:
        store.names.set(name, image.descriptor)
    return image


def _same(store: ImageStore, built: Built, names: Sequence[Reference]) -> StoredImage | None:
    """Return the image that has the name, where what was built is nothing else: its id stays the same."""
    for name in names:
        try:
            known = store.find(name)
        except InvalidImage:
            continue
        if (
            known is not None
            and known.config.run == built.config
            and known.config.rootfs.diff_ids == tuple(layer.diff_id for layer in built.layers)
            and [each.created_by for each in known.config.history]
            == [each.created_by for each in built.history]
        ):
            return known
    return None
