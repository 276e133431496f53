"""The last acknowledged revision, in a file of its own beside the store.

Written after each commit and before its answer, never synced: it costs a microsecond, survives the process, and after a
power loss says at most what the store has. A store that is behind it has lost writes that clients know of (a truncated
WAL, an older copy put back): it then goes on after this revision, so that none is handed out twice.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

_FORMAT = struct.Struct(">QI")


def file_of(store: Path) -> Path:
    """Return where the watermark of a store lies."""
    return store.with_name(f"{store.name}-revision")


def read(store: Path) -> int:
    """Return the last acknowledged revision; 0 when nobody knows."""
    try:
        revision, check = _FORMAT.unpack(file_of(store).read_bytes())
    except (OSError, struct.error):
        return 0
    return int(revision) if check == crc32(revision.to_bytes(8, "big")) else 0


class Watermark:
    """The open file. A disk that refuses it only makes lost writes harder to notice."""

    def __init__(self, store: Path) -> None:
        self._descriptor = -1
        try:
            self._descriptor = os.open(file_of(store), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            pass

    def write(self, revision: int) -> None:
        """Note that everything up to `revision` is on the disk."""
        if self._descriptor >= 0:
            try:
                os.pwrite(self._descriptor, _FORMAT.pack(revision, crc32(revision.to_bytes(8, "big"))), 0)
            except OSError:
                pass

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
