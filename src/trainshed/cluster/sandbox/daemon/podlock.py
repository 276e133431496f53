"""The lock of a pod: whoever holds it is its shim."""

from __future__ import annotations

import fcntl
import os

from trainshed.cluster.sandbox import files

LOCK = "lock"


def claim(pod: str) -> int:
    """Return a descriptor of the lock that says a shim of `pod`, its directory, lives: forks share it.

    Raises BlockingIOError while another has it.
    """
    directory = f"{pod}/sandbox"
    files.make_directory(pod)  # each by itself: parents that are made on the way get no mode
    files.make_directory(directory)
    lock = os.open(f"{directory}/{LOCK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock
