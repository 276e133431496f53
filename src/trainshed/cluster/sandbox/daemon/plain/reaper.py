"""The first process of a plain container, which its command and what `exec` starts are children of.

Whatever they leave behind becomes its child, so nothing gets away: when the command has ended, or the shim, it kills
all of them, and ends as the command did. It is the container's place for what is inherited: limits, and the domain of
Landlock that keeps files and processes of others from it.

    shim ▸ {"argv", "env", "cwd", "tty", "main"}, descriptors     start a process: sync, then stdin, stdout, stderr
    shim ◂ {"pid"}, a pidfd                                       it is there
    shim ◂ {"ended", "status"}                                    one that `exec` started has ended
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.daemon import accounting
from trainshed.cluster.sandbox.daemon.plain import process
from trainshed.cluster.sandbox.linux import landlock, limits, syscalls
from trainshed.cluster.sandbox.linux.process import keep_back
from trainshed.cluster.sandbox.loop import record_crash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.linux.landlock import Access
    from trainshed.cluster.sandbox.wire import Message

_KILLED = 137


def run(spec: Message, access: Access, control: socket.socket, shim: int) -> NoReturn:
    """Be the reaper, in a fork of the shim, whose number is `shim`."""
    try:
        _confine(spec, access, control, shim)
        Reaper(spec, control).run()
    except BaseException:
        record_crash()
        kill_below(os.getpid())
    os._exit(_KILLED)


def _confine(spec: Message, access: Access, control: socket.socket, shim: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    syscalls.set_process_name("trainshed-init")
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != shim:
        os._exit(_KILLED)
    limits.prefer_for_oom(spec["oom_score"])
    limits.share_cpu(spec)
    keep_back()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    landlock.confine(access)
    os.chdir("/")


class Reaper:
    """Serves the shim until the command has ended, or the shim."""

    def __init__(self, spec: Message, control: socket.socket) -> None:
        self._spec = spec
        self._control = control
        self._shim = os.getppid()
        self._main = 0
        self._started: set[int] = set()

    def run(self) -> NoReturn:
        """Never return: end as the command did."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == woken:
                    _drain(woken)
                    self._reap()
                elif not self._serve(woken, wake):
                    self._end(signal.SIGKILL)
            if os.getppid() != self._shim:
                self._end(signal.SIGKILL)

    def _serve(self, *own: int) -> bool:
        """Start what the shim asks for; return whether there is one."""
        data, descriptors = wire.receive(self._control, 1 << 20)
        if not data:
            return False
        request: Message = json.loads(data)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for fd in (*own, self._control.fileno()):
                os.close(fd)
            process.run({**self._spec, **request}, descriptors[1:], socket.socket(fileno=descriptors[0]))
        for fd in descriptors:
            os.close(fd)
        if request["main"]:
            self._main = pid
        else:
            self._started.add(pid)
        pidfd = os.pidfd_open(pid)
        wire.send_some(self._control, json.dumps({"pid": pid}).encode(), [pidfd])
        os.close(pidfd)
        return True

    def _reap(self) -> None:
        """Tell all ends at hand; the command's by ending."""
        ended = None
        for pid, status in iter(_reaped, None):
            if pid == self._main:
                ended = status
            elif pid in self._started:
                self._started.discard(pid)
                wire.send_some(self._control, json.dumps({"ended": pid, "status": status}).encode())
        if ended is not None:
            self._end(ended)

    def _end(self, status: int) -> NoReturn:
        """Kill all that is left, and end as the command did: `status` is as waitpid(2) has it."""
        signal.set_wakeup_fd(-1)
        kill_below(os.getpid())
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        os._exit(os.waitstatus_to_exitcode(status) & 255)


def _reaped() -> tuple[int, int] | None:
    """Return the number of a child that has ended, and its status; None when there is none."""
    try:
        found = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return found if found[0] else None


def kill_below(parent: int, spare: frozenset[int] = frozenset()) -> None:
    """Kill the descendants of this process, `parent`, but for those in `spare` and below, and wait for their ends.

    One that is not its child becomes it when what is between them has ended: it has to be a subreaper.
    """
    while found := accounting.children(parent) - spare:
        for pid in accounting.descendants(found):
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        for pid in found:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            continue
    except BlockingIOError:
        return
