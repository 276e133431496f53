"""The log file that a process of the cluster has as its stderr: it goes on in a new one before it grows without end."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.loop import Loop

LIMIT_BYTES = 8 << 20
OLDER = 3
"""How many files of before are kept: `<log>.1` is the newest."""
CHECK_SECONDS = 10.0


def keep(loop: Loop) -> None:
    """Have a daemon's loop look after its log: from its next turn on, every `CHECK_SECONDS`."""

    def check() -> None:
        try:
            rotate()
        finally:
            loop.later(CHECK_SECONDS, check)

    loop.later(0, check)


def rotate(descriptors: tuple[int, ...] = (2,), limit: int = LIMIT_BYTES) -> bool:
    """Return whether the file behind `descriptors` was `limit` bytes long and they lead to a new one now.

    Nothing happens where they lead to no file, or to one that another process has put aside already. What was forked
    before goes on in the old file. Raises OSError when no new file can be made; the old one is then gone on with.
    """
    found = os.fstat(descriptors[0])
    if not stat.S_ISREG(found.st_mode) or found.st_size < limit:
        return False
    path = os.readlink(f"/proc/self/fd/{descriptors[0]}")
    try:
        if not os.path.samestat(found, os.stat(path)):
            return False
    except FileNotFoundError:
        return False
    fresh = f"{path}.new.{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for number in range(OLDER - 1, 0, -1):
            try:
                os.replace(f"{path}.{number}", f"{path}.{number + 1}")
            except FileNotFoundError:
                continue
        os.replace(path, f"{path}.1")
        os.replace(fresh, path)
        for descriptor in descriptors:
            os.dup2(fd, descriptor)
    finally:
        os.close(fd)
    return True
