"""A plain container as its shim sees it: a reaper with the command below it, and the commands that join."""

from __future__ import annotations

import json
import os
import signal
import socket

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.daemon import accounting
from trainshed.cluster.sandbox.daemon.container import Container
from trainshed.cluster.sandbox.daemon.exec import ExecProcess
from trainshed.cluster.sandbox.daemon.plain import reaper
from trainshed.cluster.sandbox.daemon.plain.process import LISTENER
from trainshed.cluster.sandbox.daemon.plain.steering import NetworkFiles, Steering
from trainshed.cluster.sandbox.linux.beneath import make_beneath, open_beneath
from trainshed.cluster.sandbox.linux.landlock import Access
from trainshed.cluster.sandbox.linux.notify import BIND, CONNECT, UNAME
from trainshed.cluster.sandbox.linux.process import seen_elsewhere
from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.pids import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

SHARED = ("/dev", "/tmp", "/var/tmp")
MOUNTS = "TRAINSHED_MOUNTS"
"""The variable that tells where the volumes are: a JSON object, paths by mount paths."""
_OWN = ("home", "tmp", "work")


class PlainContainer(Container):
    """As `Container`. Of `pod` it also knows `ip`, `hostname`, its `directory`, `defaults` of the environment, the
    files of the `network`, and the shim's `lock`."""

    def _clone(self, pod: Message, stdio: list[int], sync: socket.socket) -> int:
        """Return the number of the reaper, which has started the command."""
        network: NetworkFiles = pod["network"]
        self._steering = network
        if self.spec["root"]:
            raise OSError(0, "the image has a root of its own, which takes namespaces")
        own = f"{self.directory}/own"
        for name in _OWN:
            files.make_directory(f"{own}/{name}")
        found, access = _places(self.spec, pod, own)
        names = [CONNECT] if pod["host_network"] else [BIND, CONNECT, UNAME]
        told = {path: real for path, real in found.items() if not path.startswith("/etc/")}
        defaults = {"HOME": f"{own}/home", "TMPDIR": f"{own}/tmp", **pod["defaults"], MARK: pod["directory"]}
        defaults[MOUNTS] = json.dumps(told)
        spec = {**self.spec, "places": found, "own": own, "steered": names, "defaults": defaults}
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for sock in (self._control, control):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        self._ended: dict[int, int] = {}
        shim, kept = os.getpid(), {control.fileno(), pod["lock"]}
        pid = os.fork()
        if pid == 0:
            _close_others(kept)
            reaper.run(spec, access, control, shim)
        control.close()
        request = {key: self.spec[key] for key in ("argv", "env", "cwd", "tty")}
        self._command, self._command_fd = self.spawn({**request, "main": True}, sync, stdio)
        return pid

    def _start(self, pod: Message) -> None:
        super()._start(pod)
        self.pid = self._command
        self._control.setblocking(False)
        self._loop.watch(self._control.fileno(), READ, self._hear)

    def _has_shm(self) -> bool:
        return False  # it is the machine's

    def spawn(self, request: Message, sync: socket.socket, stdio: list[int]) -> tuple[int, int]:
        """Have the reaper start a process; return its number and a pidfd, 0 and -1 where the container has ended."""
        self._control.setblocking(True)
        try:
            wire.send_some(self._control, json.dumps(request).encode(), [sync.fileno(), *stdio])
            while True:
                data, descriptors = wire.receive(self._control)
                if not data:
                    return 0, -1
                message: Message = json.loads(data)
                if descriptors:
                    return message["pid"], descriptors[0]
                self._ended[message["ended"]] = message["status"]
        except ConnectionError:
            return 0, -1
        finally:
            self._control.setblocking(False)

    @property
    def roots(self) -> list[int]:
        """The command, what it left behind, and what `exec` started."""
        return list(accounting.children(self._child))

    @property
    def reaper(self) -> int:
        """The number of the reaper."""
        return self._child

    def status_of(self, pid: int) -> int | None:
        """Return the exit status of a process that joined, None while it is not told; 9 where nobody will."""
        status = self._ended.pop(pid, None)
        return signal.SIGKILL if status is None and self.pidfd < 0 else status

    def kill(self, number: int) -> None:
        """Signal the command. Raises ProcessLookupError when it has ended."""
        if self.pidfd < 0:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._command_fd, number)

    def watch_calls(self, listener: int) -> None:
        """Answer the calls that arrive at a listener."""
        Steering(self._loop, listener, self.pod, self._steering)

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        if data == LISTENER:
            self.watch_calls(descriptors[0])
        else:
            super()._take(data, descriptors)

    def _hear(self, events: int) -> None:
        try:
            data, _ = wire.receive(self._control)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.forget(self._control.fileno())
            return
        message: Message = json.loads(data)
        self._ended[message["ended"]] = message["status"]

    def _conclude(self) -> None:
        if self._command_fd >= 0:
            os.close(self._command_fd)
            self._command_fd = -1
            self._hear_rest()
            self._control.close()
        super()._conclude()

    def _hear_rest(self) -> None:
        """Take what the reaper said at last: a command that joined may have ended just before."""
        self._loop.forget(self._control.fileno())
        try:
            while (message := wire.receive(self._control)[0]) != b"":
                ended = json.loads(message)
                self._ended[ended["ended"]] = ended["status"]
        except OSError:
            return


class PlainExec(ExecProcess):
    """As `ExecProcess`, started by the container's reaper, which is told of its end first."""

    _container: PlainContainer

    def _clone(self, spec: Message, stdio: list[int], sync: socket.socket) -> int:
        request = {key: spec[key] for key in ("argv", "env", "cwd", "tty")}
        pid, self._process = self._container.spawn({**request, "main": False}, sync, stdio)
        return pid

    def _open_process(self) -> tuple[int, int]:
        return self._process, self.pid  # it may have been reaped by now

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        if data == LISTENER:
            self._container.watch_calls(descriptors[0])
        else:
            super()._take(data, descriptors)

    def _wait(self) -> int | None:
        return self._container.status_of(self.pid)


def _places(spec: Message, pod: Message, own: str) -> tuple[dict[str, str], Access]:
    """Return the real paths by those that the container knows, and what it may do with files. Raises OSError."""
    found: dict[str, str] = {}
    visible, writable = [], [os.path.realpath(own), *SHARED]
    for layer in spec["layers"]:
        found[layer["path"]] = os.path.realpath(layer["source"])
        visible.append(found[layer["path"]])
    for mount in [*pod["files"], *spec["mounts"]]:
        source = _source(mount)
        found[mount["path"]] = source
        visible.append(source)
        if not mount.get("read_only"):
            writable.append(source)
    return found, Access([*spec["masked"], *seen_elsewhere(spec["masked"])], visible, writable)


def _source(mount: Message) -> str:
    """Return the real path of a mount, whose sub-path leads nowhere out of it. Raises OSError."""
    if mount.get("lowers"):
        raise OSError(0, f"the volume at {mount['path']} is an image, which takes namespaces")
    path: str = os.path.realpath(mount["source"])
    if not mount.get("sub_path"):
        return path
    top = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        place = (
            make_beneath(top, mount["sub_path"]) if mount["make"] else open_beneath(top, mount["sub_path"])
        )
        try:
            return os.readlink(f"/proc/self/fd/{place}")
        finally:
            os.close(place)
    finally:
        os.close(top)


def _close_others(kept: set[int]) -> None:
    """Close what the shim has open, but for standard streams and `kept`."""
    last = 2
    for number in sorted(kept):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
