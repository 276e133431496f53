"""netd's side of Services: the process that forwards (`serviceproxy`), its routes, and listeners of the machine.

The process is there from the first connection on. Until then netd holds the listeners, so that a cluster in which
nobody asks for a Service has a process less; many are a sign that somebody will.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import sys

from trainshed.cluster.sandbox import bootstrap, files, wire
from trainshed.cluster.sandbox.daemon import servicepost
from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.net import clusternet
from trainshed.cluster.sandbox.net.translation import can_be_translated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.net.translation import Translation
    from trainshed.cluster.sandbox.wire import Message

    Place: TypeAlias = tuple[str, str, int]
    """Protocol, IP address, port."""
    Listen: TypeAlias = Callable[[str, int, str], int]
    """From (IP address, port, protocol) to a descriptor of the cluster's network. Raises OSError."""
    Failed: TypeAlias = list[tuple[Place, str]]
    """The machine's ports that cannot be had, and why each."""
    Done: TypeAlias = Callable[[Failed | None], None]
    """Called with what could not be had when the routes are in force; None: the process has ended meanwhile."""

MOST_HELD = 4
"""Listeners of the cluster's network that are held: each costs sandboxd a fork."""
_RESTART_SECONDS = 1.0
_LOG = "services.log"


class ServiceNet:
    """Keeps listeners or the process while there are routes.

    What `translation` can do, the kernel does. `namespaces`: the sandboxes' user namespace, the cluster's network, in
    which `listen` opens listeners. There are none where pods are plain processes on the machine's network, whose
    connections to Services are steered.
    """

    def __init__(
        self,
        loop: Loop,
        run: str,
        namespaces: Sequence[int],
        listen: Listen,
        translation: Translation | None = None,
    ) -> None:
        self._loop = loop
        self._run = run
        self._namespaces = namespaces
        self._listen = listen
        self._held: dict[servicepost.Key, socket.socket] = {}
        self._translation = translation
        kept = files.read_state(f"{run}/{servicepost.ROUTES}") or {}
        routes: list[Message] = [*kept.get("routes", []), *kept.get("translated", [])]
        self._routes = self._translate(routes)
        if routes:
            try:
                self._keep(routes)  # a predecessor may have had another way
            except OSError:
                pass  # the process then listens where nobody comes
        self._opened: set[Place] = set()
        self._channel: socket.socket | None = None
        self._pid = 0
        self._pidfd = -1
        self._number = 0
        self._waiting: list[tuple[int, Failed, Done]] = []
        self._restart()

    def set_routes(self, routes: list[Message], done: Done) -> None:
        """Forward by these, and say when that is so.

        Raises OSError when the routes cannot be kept, or the process not be started; `done` is not called then.
        """
        translation = self._translation
        self._keep(routes)
        self._routes = self._translate(routes)
        if self._translation is not translation:
            self._keep(routes)
        failed = self._update()
        if self._channel is None:
            done(failed)
        else:
            self._waiting.append((self._number, failed, done))

    @property
    def by(self) -> str:
        """What leads connections to Services on, in words."""
        if not self._namespaces:
            return "system calls of pods, steered"
        return "a process" if self._translation is None else "the kernel (nftables)"

    def _keep(self, routes: list[Message]) -> None:
        """Write the routes down: those of the process, and those of the kernel."""
        translated = [route for route in routes if self._translation is not None and can_be_translated(route)]
        rest = [route for route in routes if self._translation is None or not can_be_translated(route)]
        files.write_state(f"{self._run}/{servicepost.ROUTES}", {"routes": rest, "translated": translated})

    def _translate(self, routes: list[Message]) -> list[Message]:
        """Have the kernel lead where it can; return the other routes."""
        if self._translation is None:
            return routes
        try:
            self._translation.apply([route for route in routes if can_be_translated(route)])
        except OSError as error:
            os.write(2, f"Services are forwarded by a process from now on: {error}\n".encode())
            self._translation = None
            return routes
        return [route for route in routes if not can_be_translated(route)]

    def close(self) -> None:
        """Let go of the listeners; end the process and wait for that."""
        self._let_go(list(self._held))
        if self._channel is None:
            return
        self._loop.forget(self._pidfd)
        os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def _update(self, *, asked: bool = False) -> Failed:
        """Have the routes in force, by the process if there is one or somebody has `asked` for it."""
        if not self._routes:
            self.close()
            return []
        outside = self._places(host=True)
        if self._channel is None:
            if not asked and self._hold_all(self._places(host=False)):
                return self._open_ports(outside)
            self._start()
        failed = self._open_ports(outside)
        self._number += 1
        self._tell({"number": self._number})
        return failed

    def _places(self, *, host: bool) -> set[Place]:
        """Return where the routes begin: on the machine, or in the cluster's network."""
        if not host and not self._namespaces:
            return set()
        found = (route for route in self._routes if bool(route["host"]) is host)
        return {(route["protocol"], route["ip"], int(route["port"])) for route in found}

    def _hold_all(self, places: set[Place]) -> bool:
        """Hold the listeners of these places in the cluster's network; return whether they can be had."""
        self._let_go([key for key in self._held if not key[0] and key[1:] not in places])
        if len(places) > MOST_HELD:
            return False
        for protocol, ip, port in places:
            if (False, protocol, ip, port) not in self._held:
                try:
                    listener = wire.adopt(self._listen(ip, port, protocol))
                except OSError:
                    return False  # the process says why, if it cannot have it either
                self._hold((False, protocol, ip, port), listener)
        return True

    def _hold(self, key: servicepost.Key, listener: socket.socket) -> None:
        self._held[key] = listener
        self._loop.watch(listener.fileno(), READ, self._asked)

    def _asked(self, events: int) -> None:
        """Start the process, for somebody waits."""
        for listener in self._held.values():
            self._loop.forget(listener.fileno())  # or it would be ready again and again
        try:
            self._update(asked=True)
        except OSError as error:
            os.write(2, f"Services are not forwarded: {error}\n".encode())
            self._let_go(list(self._held))
            self._opened.clear()
            self._loop.later(_RESTART_SECONDS, self._restart)

    def _let_go(self, keys: Iterable[servicepost.Key]) -> None:
        for key in keys:
            listener = self._held.pop(key)
            self._loop.forget(listener.fileno())
            listener.close()

    def _open_ports(self, places: set[Place]) -> Failed:
        """Open those of the machine's ports that are not; return the others, and why each."""
        failed = []
        self._let_go([key for key in self._held if key[0] and key[1:] not in places])
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
            self._opened.add(place)
            if self._channel is None:
                self._hold((True, *place), listener)
            else:
                self._hand_over((True, *place), listener)
        return failed

    def _hand_over(self, key: servicepost.Key, listener: socket.socket) -> None:
        """Give a listener to the process."""
        host, protocol, ip, port = key
        with listener:
            self._tell({"host": host, "protocol": protocol, "ip": ip, "port": port}, [listener.fileno()])

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
        places = servicepost.DESCRIPTORS[: len(sources)]
        copies = [_above(max(servicepost.DESCRIPTORS), number) for number in sources]
        try:
            actions = [(os.POSIX_SPAWN_DUP2, copy, place) for copy, place in zip(copies, places, strict=True)]
            command = [sys.executable, "-I", "-S", bootstrap.__file__, servicepost.MODULE, self._run]
            command += [] if self._namespaces else [servicepost.ON_MACHINE]
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
        self._loop.watch(self._pidfd, READ, self._ended)
        self._loop.watch(ours.fileno(), READ, self._hear)
        held, self._held = self._held, {}
        for key, listener in held.items():
            self._loop.forget(listener.fileno())
            self._hand_over(key, listener)

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
        for asked, failed, done in waiting:
            if asked <= number:
                done(failed)

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
        for _, _, done in waiting:
            done(None)


def _above(least: int, number: int) -> int:
    """Return a copy of a descriptor with a number above `least`."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least + 1)


def _open_log() -> int:
    """Return a file beside netd's own log; netd's stderr where that is no file."""
    if not stat.S_ISREG(os.fstat(2).st_mode):
        return os.dup(2)
    directory = os.path.dirname(os.readlink("/proc/self/fd/2"))
    return os.open(f"{directory}/{_LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
