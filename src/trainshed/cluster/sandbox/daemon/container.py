"""One attempt of a container, as its shim sees it: process, state file, standard streams."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import time

from trainshed.cluster.sandbox import files, pids, wire
from trainshed.cluster.sandbox.daemon import accounting
from trainshed.cluster.sandbox.daemon.joining import clone_beside
from trainshed.cluster.sandbox.daemon.output import MAX_RETRIES, RETRY_SECONDS, Output
from trainshed.cluster.sandbox.daemon.podmemory import SHARED_MEMORY
from trainshed.cluster.sandbox.linux import cgroups, limits, memory, process, syscalls
from trainshed.cluster.sandbox.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.cluster.sandbox.daemon.pause import Pause
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.daemon.spare import Spare
    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

_REAP_SECONDS = 0.1
_LOOK_SECONDS = 0.25  # between two looks at the memory of a container that has a limit
_MAX_MESSAGE = 4096  # of a termination message, as in the kubelet
STATE = "state.json"
AMOUNTS = ("memory_limit", "cpu_limit", "cpu_request")
_TERMINATION = "termination-log"


def limits_of(spec: Message) -> dict[str, int]:
    """Return the limits that a cgroup can keep."""
    return {"memory": spec["memory_limit"], "cpu": spec["cpu_limit"], "cpu_request": spec["cpu_request"]}


class Container:
    """Starts the process when constructed. Calls `on_started` if the command runs, and `on_ended` once.

    `failure` is the report of a process that could not become the command, with `errno` where that was no fault of
    the command's and the attempt may be made again. `directory` is the attempt's private one. `pod` is what
    `process.run_first` wants to know, with
    `kept`, the limits that a cgroup keeps, and `memory_volumes`.
    With `beside` it has no pid namespace of its own, and is in that one's; else it is the process that `spare` is, if
    that is still there.
    """

    def __init__(
        self,
        loop: Loop,
        spec: Message,
        directory: str,
        pod: Message,
        *,
        on_started: Callable[[Container], None],
        on_ended: Callable[[Container], None],
        beside: Pause | Container | None = None,
        spare: Spare | None = None,
    ) -> None:
        self.spec = spec
        self.directory = directory
        self.pid = 0
        """The number of process 1 of the container in /proc."""
        self.cgroup: str = pod["cgroup"]
        self.joined: set[int] = set()
        """Processes beside the first and its descendants: what `exec` started, by their numbers in /proc."""
        self.running = False
        self.output = Output(loop, spec["log_path"], keep_early=spec["stdin"])
        self.stdin = -1
        self.terminal = -1
        self._loop = loop
        self._on_started = on_started
        self._on_ended = on_ended
        self._started_at = 0.0
        self._finished_at: float | None = None
        self._exit_code: int | None = None
        self._signal: int | None = None
        self._message = ""
        self._why = ""
        self._held_bytes = 0
        self.failure: Message | None = None
        self._settled = False
        self._retries = 0
        self._watched = False
        self._recorded = False
        self.pod = pod
        self.pidfd = -1
        self._beside = beside
        self._spare = spare
        self._mounts = 0
        """The number of its mount namespace, by which its processes are known."""
        self._user: list[int] = []
        self._start(pod)

    @property
    def key(self) -> tuple[str, int]:
        """Name and attempt."""
        return self.spec["name"], self.spec["attempt"]

    @property
    def roots(self) -> list[int]:
        """The processes of which all others of the container descend, by their numbers in /proc."""
        return [self.pid, *self.joined]

    def state(self) -> Message:
        """Return the fields of `ContainerState`."""
        return {
            "name": self.spec["name"],
            "attempt": self.spec["attempt"],
            "pid": self.pid if self._finished_at is None else None,
            "started_at": self._started_at,
            "finished_at": self._finished_at,
            "exit_code": self._exit_code,
            "signal": self._signal,
            "message": self._message,
            "held_bytes": self._held_bytes,
            "user": self._user,
            "amounts": {key: self.spec[key] for key in AMOUNTS},
        }

    def _start(self, pod: Message) -> None:
        spec = self.spec
        termination = f"{self.directory}/{_TERMINATION}"
        os.close(os.open(termination, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        os.chmod(termination, 0o666)
        mounts = list(pod["files"])
        if spec["termination_message_path"]:
            mounts.append({"source": termination, "path": spec["termination_message_path"]})
        pod = {**pod, "files": mounts}
        self._sync, child_sync = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inner, outer = self._open_stdio()
        self._child = self._clone(pod, inner, child_sync)
        child_sync.close()
        for fd in inner:
            os.close(fd)
        if not self._child:
            for fd in filter(lambda fd: fd >= 0, outer):
                os.close(fd)
            self._sync.close()
            self.output.discard()
            raise OSError(errno.ESRCH, "the container whose processes it is to see has ended")
        if outer:
            self.stdin = outer[0]
            self.output.read_from(outer[1], b"stdout", wire.OUT)
            self.output.read_from(outer[2], b"stderr", wire.ERR)
        self._sync.setblocking(False)
        self._loop.watch(self._sync.fileno(), READ, self._sync_ready)
        self.pidfd = os.pidfd_open(self._child)
        self.pid = pids.pid_of(self.pidfd)
        self._loop.watch(self.pidfd, READ, self._exited)

    def _clone(self, pod: Message, stdio: list[int], sync: socket.socket) -> int:
        """Return the pid of the new process, 0 where there is nobody to be beside."""
        if self._beside is None:
            if self._spare is not None and (
                pid := self._spare.become(self.spec, self.directory, pod, stdio, sync)
            ):
                return pid
            pid = syscalls.clone(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
            if pid == 0:
                process.run_first(self.spec, self.directory, pod, stdio, sync)
            return pid
        spec, directory, beside = self.spec, self.directory, self._beside

        def enter() -> None:
            limits.prefer_for_oom(
                spec["oom_score"]
            )  # here, for the next process may not write to its own /proc
            beside.enter()

        return clone_beside(
            enter,
            syscalls.CLONE_NEWNS,
            lambda: process.run_first(spec, directory, pod, stdio, sync),
        )

    def enter(self) -> None:
        """Have the caller's coming children be in the container's pid namespace."""
        syscalls.setns(self.pidfd, syscalls.CLONE_NEWPID)

    def user_namespace(self) -> int:
        """Return a descriptor of the container's user namespace, -1 where that is the shim's."""
        own = os.stat("/proc/self/ns/user")
        theirs = os.stat(f"/proc/{self.pid}/ns/user")
        if (own.st_dev, own.st_ino) == (theirs.st_dev, theirs.st_ino):
            return -1
        return os.open(f"/proc/{self.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)

    def _open_stdio(self) -> tuple[list[int], list[int]]:
        """Return the container's (stdin, stdout, stderr) and the shim's ends (stdin -1 when it is null)."""
        if self.spec["tty"]:
            return [], []
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        if self.spec["stdin"]:
            in_read, in_write = os.pipe()
        else:
            in_read, in_write = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), -1
        return [in_read, out_write, err_write], [in_write, out_read, err_read]

    # Start.

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
            elif data.startswith(process.READY):
                self._mounts, *self._user = map(int, data.removeprefix(process.READY).split())
                self._record_start()
            elif data:
                self.failure = json.loads(data)
            else:
                self._settle()

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        """Take what the process hands over: the other side of its terminal."""
        self.terminal = descriptors[0]
        self.output.read_from(self.terminal, b"stdout", wire.OUT, closes=False)

    def _record_start(self) -> None:
        """Let the process call exec, once it is on disk that it did: whoever comes after us does not run it again."""
        if self._settled:
            return
        self._started_at = time.time()
        try:
            files.write_state(f"{self.directory}/{STATE}", self.state())
        except OSError as error:
            reason = f"cannot record the start: {error.strerror or error}"
            self.failure = {"exit_code": 128, "message": reason, "errno": error.errno}
        self._recorded = self.failure is None
        try:
            self._sync.send(process.GO if self._recorded else process.STOP)
        except OSError:
            return  # it has died, which is told by the end of the connection

    def _settle(self) -> None:
        """The process has called exec, or died before it."""
        self._settled = True
        self._loop.forget(self._sync.fileno())
        self._sync.close()
        if self.failure is None:
            self.running = True
            if not self._recorded:
                self._started_at = time.time()
                self._write_state()
            if self.spec["memory_limit"] and "memory" not in self.pod["kept"]:
                self._look_at_memory()
            self._on_started(self)
        elif self._recorded:
            os.unlink(f"{self.directory}/{STATE}")

    def _write_state(self) -> None:
        try:
            files.write_state(f"{self.directory}/{STATE}", self.state())
        except OSError:
            if self._finished_at is not None and self._retries < MAX_RETRIES:
                self._retries += 1
                self._loop.later(RETRY_SECONDS, self._write_state)

    def _look_at_memory(self) -> None:
        """Kill the container if it holds more than it may; without cgroups nobody else does."""
        limit = self.spec["memory_limit"]
        if self.pidfd < 0 or not limit:
            self._watched = False
            return
        self._watched = True
        held = accounting.held_bytes(self.roots, limit, self._in_files())
        if held > limit:
            self._held_bytes = held
            self.kill(signal.SIGKILL)
        else:
            self._loop.later(_LOOK_SECONDS, self._look_at_memory)

    def resize(self, amounts: Message, cores: list[int]) -> None:
        """Let the running container use other amounts. Raises OSError."""
        kept = self.pod["kept"]
        if self.cgroup:
            cgroups.set_limits(kept, self.cgroup, limits_of(amounts))
        self.spec |= {key: amounts[key] for key in AMOUNTS} | {"cpus": cores}
        if "cpu" not in kept:
            limits.keep_on(lambda: accounting.descendants(set(self.roots)), cores)
        if "memory" not in kept and not self._watched:
            self._look_at_memory()
        self._write_state()

    def usage(self, by_cgroup: bool) -> Message:
        """Return what it has used since it started: CPU seconds, bytes, and those of the latter that are no file's."""
        if by_cgroup:
            cpu, held = cgroups.usage(self.cgroup)
            return {"cpu_seconds": cpu, "memory_bytes": held, "rss_bytes": cgroups.anonymous(self.cgroup)}
        cpu, anonymous, shared = accounting.container_usage(self.roots)
        held = anonymous + max(shared, self._in_files())
        return {"cpu_seconds": cpu, "memory_bytes": held, "rss_bytes": anonymous + shared}

    def _in_files(self) -> int:
        """Return what the container has in memory as files: its part of the pod's volumes there, and its /dev/shm."""
        written = {mount["source"] for mount in self.spec["mounts"] if not mount["read_only"]}
        volumes = [one for one in self.pod["memory_volumes"] if one["path"] in written]
        parts: int = sum(memory.used_bytes(one["path"]) // max(1, one["writers"]) for one in volumes)
        return parts + (memory.used_bytes(f"/proc/{self.pid}/root{SHARED_MEMORY}") if self._has_shm() else 0)

    def _has_shm(self) -> bool:
        """Return whether /dev/shm is the container's alone: whose is what in one of several nobody can say."""
        others = [mount["path"] for mount in (*self.spec["mounts"], *self.pod["files"])]
        return all(os.path.normpath(path) != SHARED_MEMORY for path in others)

    def over(self, reason: str) -> None:
        """Kill the container, and tell why in its message."""
        self._why = reason
        self.kill(signal.SIGKILL)

    # End.

    def _exited(self, events: int) -> None:
        self._loop.forget(self.pidfd)
        if self._beside is not None and self._mounts:
            pids.kill_in(self._mounts)  # where it is not process 1, the kernel does not do so
        self._reap()

    def _reap(self) -> None:
        """Take the exit status, which one who sees the process and traces it may keep back."""
        reaped, status = os.waitpid(self._child, os.WNOHANG)
        if not reaped:
            self._loop.later(_REAP_SECONDS, self._reap)
            return
        os.close(self.pidfd)
        self.pidfd = -1
        self._sync_ready(READ)  # the end of `sync` may be in the same round of the loop
        if self.cgroup:
            self._held_bytes = cgroups.killed_for_memory(self.cgroup)
            cgroups.remove(self.cgroup)
        self._finished_at = time.time()
        self._exit_code = os.waitstatus_to_exitcode(status)
        if self._exit_code < 0:
            self._signal = -self._exit_code
            self._exit_code = 128 + self._signal
        self.output.end()
        self._conclude()

    def _conclude(self) -> None:
        """Record the end, once the log is written."""
        if not self.output.is_written():
            self._loop.later(RETRY_SECONDS, self._conclude)
            return
        for fd in (self.stdin, self.terminal):
            if fd >= 0:
                os.close(fd)
        self.stdin = self.terminal = -1
        if self.running:
            self.running = False
            self._message = self._why or self._read_message()
            self._write_state()
        self.output.finish({"exit_code": self._exit_code})
        self._on_ended(self)

    def _read_message(self) -> str:
        try:
            with open(f"{self.directory}/{_TERMINATION}", "rb") as file:
                return file.read(_MAX_MESSAGE).decode(errors="replace")
        except OSError:
            return ""

    # Requests.

    def kill(self, number: int) -> None:
        """Signal process 1. Raises ProcessLookupError when it has ended."""
        if self.pidfd < 0:
            raise ProcessLookupError
        signal.pidfd_send_signal(self.pidfd, number)

    def attach(self, peer: Peer, stdin: bool) -> None:
        """Stream output to `peer` from now on; answer with a descriptor to write to when `stdin`.

        The first client of a container with `stdin` also gets what was printed before it came.
        """
        source = self.terminal if self.spec["tty"] else self.stdin
        descriptors = []
        if (stdin or self.spec["tty"]) and source >= 0:
            descriptors.append(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 3))
        peer.answer({"tty": self.spec["tty"], "stdin": bool(descriptors)}, descriptors)
        self.output.send_to(peer)
        peer.on_close = lambda: self._detached(peer, stdin)

    def _detached(self, peer: Peer, stdin: bool) -> None:
        self.output.forget(peer)
        if stdin and self.spec["stdin_once"]:
            self.close_stdin()

    def close_stdin(self) -> None:
        """Let the container see the end of its input once every attached client has closed it, too."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1
