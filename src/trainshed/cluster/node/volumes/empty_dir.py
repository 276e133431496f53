"""emptyDir volumes: a directory that lives as long as the pod, on disk or in memory.

Memory is a directory below the host's /dev/shm: it costs memory and is gone after a reboot, as a tmpfs of its
own would be. The size limit is not enforced (`unsupported` reports it).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the host's tmpfs, below a private directory
MODE = 0o777
"""As the kubelet: any user of the container may write. The directories above are private to us."""


def empty_dir(source: Mapping[str, Any], disk: Path, memory: Path) -> Path:
    """Return the volume's directory, made if needed: `memory` for `medium: Memory`, else `disk`."""
    in_memory = source.get("medium") == "Memory" and SHARED_MEMORY.is_dir()
    path = memory if in_memory else disk
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(MODE)
    return path


def memory_root(uid: str) -> Path:
    """Return where the in-memory volumes of pod `uid` are; its parent is private to this user."""
    parent = SHARED_MEMORY / f"trainshed-{os.getuid()}"
    if SHARED_MEMORY.is_dir():
        parent.mkdir(mode=0o700, exist_ok=True)
        if parent.stat().st_uid != os.getuid():
            raise PermissionError(f"{parent} belongs to somebody else")
        parent.chmod(0o700)
    return parent / uid
