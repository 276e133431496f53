"""emptyDir volumes: a directory that lives as long as the pod, on disk or in memory.

Memory is a directory below the host's /dev/shm: it costs memory and is gone after a reboot, as a tmpfs of its
own would be. The size limit is not enforced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trainshed.cluster.node.paths import SHARED_MEMORY
from trainshed.cluster.node.volumes.volume import DirectoryVolume, Setup, Source, Volume

MODE = 0o777
"""As the kubelet: any user of the container may write. The directories above are private to us."""


class EmptyDirVolume(DirectoryVolume):
    """Also what a volume without any source is."""

    field = "emptyDir"

    def unsupported(self, source: Source) -> Iterable[tuple[str, str]]:
        if source.get("sizeLimit"):
            yield "sizeLimit", "the size of an emptyDir is not limited"
        if str(source.get("medium", "")).startswith("HugePages"):
            yield "medium", "huge pages are not offered: the volume is on disk"

    def directory(self, setup: Setup) -> Volume:
        in_memory = setup.source.get("medium") == "Memory" and SHARED_MEMORY.is_dir()
        path = setup.memory if in_memory else setup.disk
        if in_memory:
            _make_private(path.parents[1])
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(MODE)
        return Volume(path)


def _make_private(directory: Path) -> None:
    """Make the directory of all pods of this user, which others may not enter. Raises PermissionError."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    directory.chmod(0o700)
