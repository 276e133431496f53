"""A process that waits to become the first one of a container.

The shim of a new pod makes it while the control plane works out what to start: a fork, and the namespaces that every
container has, take a third of the time of a start. It does nothing by itself, and ends when nobody needs it.
"""

from __future__ import annotations

import os
import signal
import socket

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.linux import process, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

_IDLE_SECONDS = 2.0
"""How long one is kept: what is not started by then waits for an image, and memory is worth more."""
_TELL_SECONDS = 5.0


def make_spare(loop: Loop) -> Spare | None:
    """Return a new one; None where there can be none now."""
    try:
        return Spare(loop)
    except OSError:
        return None  # what is in the way will say so when a process is needed


class Spare:
    """Makes the process when constructed. Raises OSError."""

    def __init__(self, loop: Loop) -> None:
        self._own, theirs = socket.socketpair()
        try:
            self._pid = syscalls.clone(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        except BaseException:
            self._own.close()
            theirs.close()
            raise
        if self._pid == 0:
            self._own.close()
            _wait(theirs)
        theirs.close()
        self._own.settimeout(_TELL_SECONDS)
        self._timer = loop.later(_IDLE_SECONDS, self.drop)

    def become(
        self, spec: Message, directory: str, pod: Message, stdio: list[int], sync: socket.socket
    ) -> int:
        """Have it go on as `process.run_first`; return its pid, 0 where it is not there any more."""
        self._timer.cancel()
        if not self._pid:
            return 0
        told = wire.message_frame({"spec": spec, "directory": directory, "pod": pod})
        try:
            wire.send_all(self._own, told, [sync.fileno(), *stdio])
        except OSError:
            self.drop()
            return 0
        self._own.close()
        pid, self._pid = self._pid, 0
        return pid

    def drop(self) -> None:
        """End it, if it waits still."""
        self._timer.cancel()
        self._own.close()
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _wait(asked: socket.socket) -> NoReturn:
    syscalls.set_process_name("trainshed-spare")
    try:
        told, (sync, *stdio) = wire.wait_answer(asked)
        asked.close()
        channel = socket.socket(fileno=sync)
        process.run_first(told["spec"], told["directory"], told["pod"], stdio, channel)
    finally:
        os._exit(128)
