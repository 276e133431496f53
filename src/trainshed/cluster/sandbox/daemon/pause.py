"""Process 1 of the pid namespace that the containers of a pod share, as a pod sandbox's `pause` is (KEP-1495).

It waits for what nobody else waits for, and is gone with the shim. Containers see it and can do nothing with it: it is
not dumpable, and its root is an empty directory.
"""

from __future__ import annotations

import os
import signal

from trainshed.cluster.sandbox import pids
from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Pause:
    """Starts the process when constructed. `place` is an empty directory. Raises OSError."""

    def __init__(self, place: str) -> None:
        read, write = os.pipe()
        child = syscalls.clone(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        if child == 0:
            _run(place, read)
        os.close(read)
        try:
            pidfd = os.pidfd_open(child)
            self.pid = pids.pid_of(pidfd)
            """Its number in /proc."""
            os.close(pidfd)
            # Opened now: nobody may do so once it is not dumpable.
            self._namespace = os.open(f"/proc/{self.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            os.write(write, b"1")
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        finally:
            os.close(write)

    def enter(self) -> None:
        """Have the caller's coming children be in its pid namespace."""
        syscalls.setns(self._namespace, syscalls.CLONE_NEWPID)


def _run(place: str, known: int) -> NoReturn:
    try:
        if os.read(known, 1) != b"1":
            os._exit(1)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        syscalls.set_process_name("pause")
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount("tmpfs", place, "tmpfs", syscalls.MS_NOSUID, "mode=0755,size=4k")
        os.mkdir(f"{place}/host")
        syscalls.pivot_root(place, f"{place}/host")
        os.chdir("/")
        syscalls.unmount("/host")
        while True:
            while _reaped():
                continue
            signal.sigwait([signal.SIGCHLD])
    finally:
        os._exit(1)


def _reaped() -> bool:
    """Take the status of a child that has ended, if there is one."""
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return pid > 0
