"""What stands for a name: an image of the store, or directories that were registered."""

from __future__ import annotations

from trainshed.cluster.images.directories import Image, ImageRegistry, normalise
from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.store.store import ImageStore, StoredImage


def as_image(stored: StoredImage) -> Image:
    """Return what the configuration of an image says of its containers."""
    run = stored.config.run
    env = dict(text.split("=", 1) for text in run.env or () if "=" in text)
    return Image(
        env=env, entrypoint=run.entrypoint or (), cmd=run.cmd or (), workdir=run.working_dir, stored=True
    )


class Lookup:
    """Finds what is known of an image before a container is made of it."""

    def __init__(self, registry: ImageRegistry, store: ImageStore) -> None:
        self._registry = registry
        self._store = store

    def resolve(self, name: str) -> Image | None:
        """Return what stands for the name, None for nothing. Raises ImageProblem."""
        registered = self._registry.resolve(name)
        try:
            stored = self._store.find(parse(name))
        except InvalidImage:
            stored = None
        return as_image(stored) if stored is not None else registered

    def all(self) -> dict[str, Image]:
        """Return every image by the name under which `directories.normalise` finds it."""
        found = dict(self._registry.list())
        for name, manifest in self._store.all().items():
            try:
                found[normalise(str(name))] = as_image(self._store.image(manifest))
            except InvalidImage:
                continue
        return found
