"""The root of a container that runs in an image: layers under one overlay, nothing of the host's.

Overlayfs takes directories that have no mounts in them as they are, so here it can take the root whole. What the image
holds is untrusted: until the root is changed to it, nothing in it is followed.
"""

from __future__ import annotations

import os
import stat

from trainshed.cluster.sandbox.linux.rootfs import RootFilesystem

_MOUNT_POINTS = ("proc", "sys", "dev")


class ImageRoot(RootFilesystem):
    """Builds one root below `private` of the directories `lowers`, the topmost first."""

    def __init__(self, private: str, lowers: list[str]) -> None:
        super().__init__(private, [])
        self._lowers = lowers

    def build(self) -> None:
        """Mount the overlay at `self.root`. Raises OSError."""
        os.makedirs(self.root, 0o755, exist_ok=True)
        self._choose_upper()
        number = self._try_overlay(self._lowers, self.root)
        if number:
            raise OSError(number, os.strerror(number), "overlay of the image's layers")
        for name in _MOUNT_POINTS:
            self._make_directory(f"{self.root}/{name}")

    def _make_directory(self, path: str) -> None:
        """Make a directory of the container's own in the place of whatever the image has there."""
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            os.mkdir(path, 0o755)
            return
        if not stat.S_ISDIR(mode):
            os.unlink(path)
            os.mkdir(path, 0o755)
