"""image volumes (KEP-4639): the files of an image, read-only. What they are is found when a container starts."""

from __future__ import annotations

from trainshed.cluster.node.volumes.volume import DirectoryVolume, MountError, Setup, Volume


class ImageVolume(DirectoryVolume):
    """The layers of an image, one over the other."""

    field = "image"

    def directory(self, setup: Setup) -> Volume:
        reference = setup.source.get("reference")
        if not reference:
            raise MountError("image.reference is empty")
        return Volume(setup.disk, read_only=True, image=setup.source)
