"""The lock of a pod: whoever holds it is its shim."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox import files

_LOCK = "sandbox/lock"


def claim(pod: str) -> int:
    """Return a descriptor of the lock that says a shim of `pod`, its directory, lives: forks share it.

    Raises BlockingIOError while another has it.
    """
    files.make_directory(pod)  # each by itself: parents that are made on the way get no mode
    files.make_directory(f"{pod}/sandbox")
    return files.lock(f"{pod}/{_LOCK}")


def is_held(pod: str) -> bool:
    """Return whether a shim lives, one that does not listen yet included: it holds the lock until it ends."""
    try:
        os.close(files.lock(f"{pod}/{_LOCK}", create=False))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
