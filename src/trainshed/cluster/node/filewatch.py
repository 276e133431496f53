"""Waits until a file changes: inotify through libc, because the standard library has no binding.

Where inotify is not to be had (no instances left), the size is looked at every 50 ms instead.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_CLOSE_WRITE, IN_Q_OVERFLOW = 0x2, 0x80, 0x100, 0x8, 0x4000
IN_CLOEXEC, IN_NONBLOCK = os.O_CLOEXEC, os.O_NONBLOCK
FALLBACK_SECONDS = 0.05

_EVENT = struct.Struct("iIII")
"""struct inotify_event: watch, mask, cookie, length of the name that follows."""
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Watches the directory of `path`, so that a file that is replaced or not there yet is seen too.

    `on_new` is called when a file of the directory came to be or was given another name, whether somebody waits or not.
    Must be closed. One waiter at a time.
    """

    def __init__(self, path: Path, on_new: Callable[[], None] = lambda: None) -> None:
        self._on_new = on_new
        self._changed = asyncio.Event()
        self._descriptor = _watch(path.parent)
        if self._descriptor is not None:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    async def changed(self, timeout: float) -> None:
        """Return when something in the directory changed since the last call, or after `timeout` seconds."""
        if self._descriptor is None:
            await asyncio.sleep(FALLBACK_SECONDS)
            return
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def wake(self) -> None:
        """Let `changed` return as if the file had changed."""
        self._changed.set()

    def close(self) -> None:
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> None:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, 64 * 1024)
        except BlockingIOError:
            return
        self._changed.set()
        if any(mask & (IN_MOVED_TO | IN_CREATE | IN_Q_OVERFLOW) for mask in _masks(data)):
            self._on_new()


def _masks(events: bytes) -> Iterator[int]:
    """Yield what happened, event by event."""
    offset = 0
    while offset < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, offset)
        yield mask
        offset += _EVENT.size + length


def _watch(directory: Path) -> int | None:
    descriptor: int = _libc.inotify_init1(IN_CLOEXEC | IN_NONBLOCK)
    if descriptor < 0:
        return None
    mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE
    if _libc.inotify_add_watch(descriptor, os.fsencode(directory), mask) < 0:
        os.close(descriptor)
        return None
    return descriptor
