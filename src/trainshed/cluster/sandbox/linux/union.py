"""Directories seen as one, read-only: what a volume that is an image shows."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.linux import syscalls

_FLAGS = syscalls.MS_RDONLY | syscalls.MS_NOEXEC | syscalls.MS_NOSUID | syscalls.MS_NODEV


def open_union(lowers: list[str], private: str) -> int:
    """Mount the directories `lowers`, the topmost first, in the current mount namespace; return a descriptor of it.

    It can be bound elsewhere. `private` is a directory for its mount point. No program runs from it. Raises OSError.
    """
    os.makedirs(private, 0o700, exist_ok=True)
    number = len(os.listdir(private))
    point, empty = f"{private}/{number}", f"{private}/{number}-empty"
    os.mkdir(point)
    os.mkdir(empty)  # overlayfs takes no single directory without one to write to
    fds = [os.open(name, os.O_PATH | os.O_CLOEXEC) for name in (*lowers, empty)]
    try:
        names = ":".join(f"/proc/self/fd/{fd}" for fd in fds)
        syscalls.mount("overlay", point, "overlay", _FLAGS, f"lowerdir={names},userxattr")
    finally:
        for fd in fds:
            os.close(fd)
    return os.open(point, os.O_PATH | os.O_CLOEXEC)
