"""Processes that join a running container: exec."""

from __future__ import annotations

import json
import os
import signal
import socket

from trainshed.cluster.sandbox import pids, wire
from trainshed.cluster.sandbox.daemon.joining import clone_beside
from trainshed.cluster.sandbox.linux import cgroups, limits, process, syscalls
from trainshed.cluster.sandbox.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.container import Container
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

_REAP_SECONDS = 0.1
_KILL_AFTER = 2.0  # seconds between SIGHUP and SIGKILL when the client has gone


class ExecProcess:
    """One exec. Its streams are handed to the client as descriptors; the shim only waits for its end.

    Answers `{"started": true}` with [terminal] or [stdin, stdout, stderr], or `{"error": ...}`; later
    `{"exit_code": n}`.
    """

    def __init__(self, loop: Loop, container: Container, request: Message, peer: Peer) -> None:
        self.pid = 0
        self._loop = loop
        self._peer = peer
        self._tty: bool = request["tty"]
        self._report: Message | None = None
        self._settled = False
        self._pidfd = -1
        self._number = 0
        self._container = container
        env = {**dict(container.spec["env"]), **dict(request["env"])}
        spec = {
            **container.spec,
            "argv": request["argv"],
            "env": list(env.items()),
            "cwd": request["cwd"] or container.spec["cwd"],
            "tty": self._tty,
        }
        self._outer, inner = [], []
        if not self._tty:
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            in_read, in_write = os.pipe()
            inner, self._outer = [in_read, out_write, err_write], [in_write, out_read, err_read]
            if not request["stdin"]:
                os.close(in_read)
                inner[0] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._sync, child_sync = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = self._clone(spec, inner, child_sync)
        child_sync.close()
        for fd in inner:
            os.close(fd)
        self._sync.setblocking(False)
        loop.watch(self._sync.fileno(), READ, self._sync_ready)
        if self.pid:
            self._pidfd, self._number = self._open_process()
            container.joined.add(self._number)
            loop.watch(self._pidfd, READ, self._exited)
        peer.on_close = self.hang_up

    def _sync_ready(self, events: int) -> None:
        while not self._settled:
            try:
                data, descriptors = wire.receive(self._sync)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if descriptors:
                self._take(data, descriptors)
            elif data:
                self._report = json.loads(data)
            else:
                self._settle()

    def _clone(self, spec: Message, stdio: list[int], sync: socket.socket) -> int:
        return _clone_into(self._container, spec, stdio, sync)

    def _open_process(self) -> tuple[int, int]:
        """Return a descriptor of the process, and its number in /proc."""
        process = os.pidfd_open(self.pid)
        return process, pids.pid_of(process)

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        """Take what the process hands over: the other side of its terminal."""
        self._outer = descriptors

    def _settle(self) -> None:
        self._settled = True
        self._loop.forget(self._sync.fileno())
        self._sync.close()
        if self._report is None and self.pid:
            self._peer.answer({"started": True}, self._outer)
        else:
            for fd in self._outer:
                os.close(fd)
            error = self._report or {"exit_code": 128, "message": "the container has ended"}
            self._peer.answer({"error": error})
        self._outer = []

    def _exited(self, events: int) -> None:
        self._loop.forget(self._pidfd)
        self._reap()

    def _reap(self) -> None:
        """Take the exit status, which a process of the container that traces this one may keep back."""
        status = self._wait()
        if status is None:
            self._loop.later(_REAP_SECONDS, self._reap)
            return
        os.close(self._pidfd)
        self._pidfd = -1
        self._container.joined.discard(self._number)
        self._sync_ready(READ)
        code = os.waitstatus_to_exitcode(status)
        self._peer.on_close = None
        self._peer.answer({"exit_code": 128 - code if code < 0 else code})
        self._peer.finish()

    def _wait(self) -> int | None:
        """Return the exit status as waitpid(2) has it, None while it is not told."""
        reaped, status = os.waitpid(self.pid, os.WNOHANG)
        return status if reaped else None

    def hang_up(self) -> None:
        """The client has gone: SIGHUP to the process group, and SIGKILL if that does not end it."""
        self._signal(signal.SIGHUP)
        self._loop.later(_KILL_AFTER, lambda: self._signal(signal.SIGKILL))

    def _signal(self, number: int) -> None:
        if self._pidfd < 0:
            return  # ended: its number may be another process's by now
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


def _clone_into(target: Container, spec: Message, stdio: list[int], sync: socket.socket) -> int:
    """Start a process in the namespaces of `target`; return its pid, 0 when that failed."""
    user = target.user_namespace()

    def enter() -> None:
        # Here, for the next process may not write to its own /proc, nor see the machine's cgroups.
        limits.prefer_for_oom(spec["oom_score"])
        if target.cgroup:
            cgroups.enter(target.cgroup)
        if "cpu" not in target.pod["kept"]:
            limits.share_cpu(spec, session=False)  # it is still the shim's
        syscalls.setns(target.pidfd, syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)

    try:
        return clone_beside(enter, 0, lambda: process.run_joined(spec, user, stdio, sync))
    finally:
        if user >= 0:
            os.close(user)
