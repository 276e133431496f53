"""Processes in the pid namespace of somebody else: commands that join a container, and containers beside another."""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def clone_beside(enter: Callable[[], object], flags: int, run: Callable[[], NoReturn]) -> int:
    """Start a child of the caller that calls `run`; return its pid, 0 when that failed.

    It is made with `flags` after `enter` has entered a pid namespace, and done what the child cannot.

    Two steps, for entering a pid namespace concerns children only. The first child's child is made with
    CLONE_PARENT: the shim's own, to be waited for.

    It is the one process with the shim's memory and descriptors that others there can see until it calls exec.
    Not dumpable, and of a program that began outside the sandboxes' user namespace, it is nobody's there to trace.
    """
    read, write = os.pipe()
    middle = syscalls.clone(0)
    if middle == 0:
        try:
            os.close(read)
            enter()
            syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
            pid = syscalls.clone(syscalls.CLONE_PARENT | flags)
            if pid == 0:
                os.close(write)
                run()
            os.write(write, str(pid).encode())
        finally:
            os._exit(1)
    os.close(write)
    number = os.read(read, 32)
    os.close(read)
    os.waitpid(middle, 0)
    return int(number or b"0")
