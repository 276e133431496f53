"""A file of a downwardAPI volume is filled: told by the kernel, not asked for again and again.

The node replaces all files of such a volume at once by renaming a link beside them, which inotify tells of the volume's
directory (inotify(7)). Python's library has no inotify, its C library has.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

_IN_CREATE, _IN_MOVED_TO, _IN_CLOSE_WRITE = 0x100, 0x80, 0x8
_EVENTS_BYTES = 4096
_LOOK_AGAIN_SECONDS = 1.0


async def filled(file: Path) -> None:
    """Return once the file has something in it. On systems without inotify it is looked at every second."""
    descriptor = _watch(file.parent)
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def take(descriptor: int) -> None:
        try:
            os.read(descriptor, _EVENTS_BYTES)
        except BlockingIOError:
            return  # taken before, and reported twice
        changed.set()

    if descriptor is not None:
        loop.add_reader(descriptor, take, descriptor)
    try:
        while not _has_something(file):
            if descriptor is None:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                continue
            await changed.wait()
            changed.clear()
    finally:
        if descriptor is not None:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _has_something(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


def _watch(folder: Path) -> int | None:
    """Return a descriptor that becomes readable when an entry of the folder changes; None where there is no inotify."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None  # no more instances for this user: fs.inotify.max_user_instances
    wanted = _IN_CREATE | _IN_MOVED_TO | _IN_CLOSE_WRITE
    if library.inotify_add_watch(descriptor, os.fsencode(folder), wanted) < 0:
        os.close(descriptor)
        return None
    return descriptor
