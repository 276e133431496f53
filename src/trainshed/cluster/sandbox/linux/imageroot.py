"""The root of a container that runs in an image: layers under one overlay, nothing of the host's.

Overlayfs takes directories that have no mounts in them as they are, so here it can take the root whole. What the image
holds is untrusted: until the root is changed to it, nothing in it is followed.
"""

from __future__ import annotations

import os
import stat

from trainshed.cluster.sandbox.linux.beneath import make_beneath
from trainshed.cluster.sandbox.linux.rootfs import RootFilesystem, by_fd

_MOUNT_POINTS = ("proc", "sys", "dev")


class ImageRoot(RootFilesystem):
    """Builds one root below `private` of the directories `lowers`, the topmost first."""

    def __init__(self, private: str, lowers: list[str]) -> None:
        super().__init__(private, [])
        self._lowers = lowers

    def build(self) -> None:
        """Mount the overlay at `self.root`. Raises OSError."""
        os.makedirs(self.root, 0o755, exist_ok=True)
        number = self._overlay_paths(self._lowers, self.root)
        if number:
            raise OSError(number, os.strerror(number), "overlay of the image's layers")
        for name in _MOUNT_POINTS:
            self._make_directory(f"{self.root}/{name}")

    def own_volumes(self, paths: list[str]) -> None:
        """Have writes at these paths, with what the image has there, lie in a volume of their own.

        They are resolved within the root. What is no directory, or what overlayfs refuses, stays as it is.
        """
        root = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for path in sorted(paths):
                self._own_volume(root, path)
        finally:
            os.close(root)

    def _own_volume(self, root: int, path: str) -> None:
        try:
            fd = make_beneath(root, path.lstrip("/"), as_root=True)
        except OSError:
            return
        try:
            self._overlay_paths([by_fd(fd)], by_fd(fd))
        finally:
            os.close(fd)

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
