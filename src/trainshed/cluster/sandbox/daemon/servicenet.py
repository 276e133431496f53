"""netd's side of Services: the process that forwards (`serviceproxy`), its routes, and listeners of the machine."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import sys

from trainshed.cluster.sandbox import bootstrap, files, wire
from trainshed.cluster.sandbox.daemon import serviceproxy
from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.net import clusternet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

    Place: TypeAlias = tuple[str, str, int]
    """Protocol, IP address, port."""
    Done: TypeAlias = Callable[[bool], None]
    """Called with whether the routes are in force; otherwise the process has ended meanwhile."""

_RESTART_SECONDS = 1.0
_LOG = "services.log"


class ServiceNet:
    """Keeps the process while there are routes. `namespaces`: the sandboxes' user namespace, the cluster's network."""

    def __init__(self, loop: Loop, run: str, namespaces: Sequence[int]) -> None:
        self._loop = loop
        self._run = run
        self._namespaces = namespaces
        self._routes: list[Message] = (files.read_state(f"{run}/{serviceproxy.ROUTES}") or {}).get(
            "routes", []
        )
        self._opened: set[Place] = set()
        self._channel: socket.socket | None = None
        self._pid = 0
        self._pidfd = -1
        self._number = 0
        self._waiting: list[tuple[int, Done]] = []
        self._restart()

    def set_routes(self, routes: list[Message], done: Done) -> list[tuple[Place, str]]:
        """Forward by these, and say when that is so; return the machine's ports that cannot be had, and why each.

        Raises OSError when the routes cannot be kept, or the process not be started; `done` is not called then.
        """
        files.write_state(f"{self._run}/{serviceproxy.ROUTES}", {"routes": routes})
        self._routes = routes
        failed = self._update()
        if self._channel is None:
            done(not routes)
        else:
            self._waiting.append((self._number, done))
        return failed

    def close(self) -> None:
        """End the process and wait for that."""
        if self._channel is None:
            return
        self._loop.forget(self._pidfd)
        os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def _update(self) -> list[tuple[Place, str]]:
        if not self._routes:
            self.close()
            return []
        if self._channel is None:
            self._start()
        failed = self._open_ports(
            (route["protocol"], route["ip"], int(route["port"])) for route in self._routes if route["host"]
        )
        self._number += 1
        self._tell({"number": self._number})
        return failed

    def _open_ports(self, wanted: Iterable[Place]) -> list[tuple[Place, str]]:
        failed = []
        places = set(wanted)
        self._opened &= places
        for place in sorted(places - self._opened):
            protocol, ip, port = place
            try:
                if not ip.startswith("127."):
                    raise OSError(f"{ip} is not the machine's loopback")
                listener = clusternet.open_listener(ip, port, protocol)
            except OSError as error:
                failed.append((place, error.strerror or str(error)))
                continue
            with listener:
                self._tell({"protocol": protocol, "ip": ip, "port": port}, [listener.fileno()])
            self._opened.add(place)
        return failed

    def _tell(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message. A process that does not take it any more is ended, and started again."""
        if self._channel is None:
            return
        try:
            wire.send_some(self._channel, json.dumps(message).encode(), descriptors)
        except OSError:
            os.kill(self._pid, signal.SIGKILL)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log = _open_log()
        sources = (theirs.fileno(), *self._namespaces)
        # Copies above those numbers: one may be where another has to go.
        copies = [_above(max(serviceproxy.DESCRIPTORS), number) for number in sources]
        try:
            actions = [
                (os.POSIX_SPAWN_DUP2, copy, place)
                for copy, place in zip(copies, serviceproxy.DESCRIPTORS, strict=True)
            ]
            command = [sys.executable, "-I", "-S", bootstrap.__file__, serviceproxy.__name__, self._run]
            self._pid = os.posix_spawn(
                sys.executable,
                command,
                dict(os.environ),
                file_actions=[*actions, (os.POSIX_SPAWN_DUP2, log, 2)],
            )
        finally:
            theirs.close()
            for number in (*copies, log):
                os.close(number)
        self._pidfd = os.pidfd_open(self._pid)
        ours.setblocking(False)
        self._channel = ours
        self._opened.clear()
        self._loop.watch(self._pidfd, READ, self._ended)
        self._loop.watch(ours.fileno(), READ, self._hear)

    def _hear(self, events: int) -> None:
        """Take the number of what is in force."""
        assert self._channel is not None
        try:
            data = self._channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # it ends: `_ended` is next
            self._loop.forget(self._channel.fileno())
            return
        number, waiting = int(data), self._waiting
        self._waiting = [one for one in waiting if one[0] > number]
        for asked, done in waiting:
            if asked <= number:
                done(True)

    def _ended(self, events: int) -> None:
        self._loop.forget(self._pidfd)
        os.write(2, b"the process that forwards to Services has ended; it is started again\n")
        self._reap()
        self._loop.later(_RESTART_SECONDS, self._restart)

    def _restart(self) -> None:
        if self._channel is not None:
            return
        try:
            self._update()
        except OSError as error:
            os.write(2, f"Services are not forwarded: {error}\n".encode())
            self._loop.later(_RESTART_SECONDS, self._restart)

    def _reap(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        if self._channel is not None:
            self._loop.forget(self._channel.fileno())
            self._channel.close()
        self._channel = None
        self._opened.clear()
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(False)


def _above(least: int, number: int) -> int:
    """Return a copy of a descriptor with a number above `least`."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least + 1)


def _open_log() -> int:
    """Return a file beside netd's own log; netd's stderr where that is no file."""
    if not stat.S_ISREG(os.fstat(2).st_mode):
        return os.dup(2)
    directory = os.path.dirname(os.readlink("/proc/self/fd/2"))
    return os.open(f"{directory}/{_LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
