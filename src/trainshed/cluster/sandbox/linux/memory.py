"""File systems in memory, for volumes: each as large as it may be, and gone with the last process that has it."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.linux.syscalls import MS_NODEV, MS_NOEXEC, MS_NOSUID


def mount(path: str, size: int, gid: int | None = None) -> None:
    """Mount an empty file system of `size` bytes at a directory, which any user may write to. Raises OSError.

    With `gid` what is made in it belongs to that group.
    """
    owned = "mode=0777" if gid is None else f"mode=2777,gid={gid}"
    syscalls.mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},{owned}")


def mount_shared(path: str) -> None:
    """Mount what a pod has as /dev/shm at a directory. Raises OSError.

    It may have half of the machine's memory, the kernel's default, where container engines give 64 MiB: data loaders
    hand tensors over there.
    """
    syscalls.mount("shm", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777")


def used_bytes(path: str) -> int:
    """Return how much memory the file system at `path` takes."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize
