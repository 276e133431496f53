"""Gives a plain pod the network of a pod: an address of the machine's loopback that is its own, and names.

Linux answers on all of 127.0.0.0/8. The cluster has a /16 of it, each pod an address. What a pod's processes bind and
connect to is looked at before the kernel does (`linux/notify`):

    bind to any address or loopback           to the pod's address, so that pods may have the same port
    connect to loopback                       to the pod's address: `localhost` is the pod, not the machine
    connect to the address of a Service       to one of its endpoints
    connect to a resolver of the machine      to the cluster's, which asks the machine's
    the name of the machine                   the pod's
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.addresses import DNS_PORT, MACHINE, is_service
from trainshed.cluster.sandbox.linux import notify
from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.net.nameserver import resolvers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.linux.notify import Call
    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

    Address: TypeAlias = tuple[str, int]

STATE = "network.json"
"""In the run directory: what netd has opened, and the block of addresses."""
ROUTES = "routes.json"
_LOOPBACK = "127."
_ANY = "0.0.0.0"  # noqa: S104 - what programs bind to
_NOWHERE = 0
_RESOLVERS = (b"/run/systemd/resolve/io.systemd.Resolve", b"/run/nscd/socket", b"/var/run/nscd/socket")
"""Daemons that C libraries ask for names, and that know none of the cluster's."""
_BIND_NO_PORT = 24  # IP_BIND_ADDRESS_NO_PORT
_NAME_BYTES = 65  # of each field of struct utsname
_RANDOM = random.Random()  # noqa: S311 - spreads load


class Network:
    """The cluster's network as its files tell: the block of addresses, and where Services lead. Pure.

    `listeners` are ports of the machine by the place of the cluster that they stand for; `routes` endpoints by theirs.
    """

    def __init__(
        self,
        prefix: str,
        dns: int,
        listeners: dict[Address, int],
        routes: Mapping[tuple[str, str, int], Sequence[Address]],
    ) -> None:
        self.prefix = prefix
        self.dns = dns
        self.listeners = listeners
        self.routes = routes

    @property
    def gateway(self) -> str:
        """The address at which the cluster itself listens."""
        return f"{self.prefix}0.1"

    def bound(self, address: Address, pod: str) -> Address | None:
        """Return what a socket of the pod is bound to in place of `address`; None for just that.

        Any address with any port is left: nobody else gets that port.
        """
        ip, port = address
        if (ip == _ANY and port) or self._is_loopback(ip):
            return pod, port
        return None

    def reached(
        self, address: Address, protocol: str, pod: str, machines_resolvers: Sequence[str]
    ) -> Address | None:
        """Return where a connection of the pod leads in place of `address`; None for just there.

        `pod` is empty for one on the machine's network. One to a Service without endpoints leads nowhere.
        """
        ip, port = address
        if (
            self.dns
            and port == DNS_PORT
            and (ip in machines_resolvers or self._is_loopback(ip) or ip == _ANY)
        ):
            return self.gateway, self.dns
        if is_service(ip):
            if address in self.listeners:
                return self.gateway, self.listeners[address]
            endpoints = self.routes.get((protocol, ip, port))
            if not endpoints:
                return self.gateway, _NOWHERE
            to, number = _RANDOM.choice(endpoints)
            return ("127.0.0.1" if to == MACHINE else to), number
        if pod and (ip == _ANY or self._is_loopback(ip)):
            return pod, port
        return None

    def _is_loopback(self, ip: str) -> bool:
        """Return whether it is the machine's loopback, and not the cluster's part of it."""
        return ip.startswith(_LOOPBACK) and not ip.startswith(self.prefix)


def read_network(run: str) -> Network:
    """Return the network as the files in the run directory tell."""
    state = files.read_state(f"{run}/{STATE}") or {}
    found = files.read_state(f"{run}/{ROUTES}") or {}
    routes = {
        (one["protocol"], one["ip"], int(one["port"])): [(ip, int(port)) for ip, port in one["endpoints"]]
        for one in found.get("routes", ())
        if not one["host"]
    }
    listeners = {(ip, int(port)): int(number) for ip, port, number in state.get("listeners", ())}
    return Network(state.get("prefix", ""), int(state.get("dns", 0)), listeners, routes)


class NetworkFiles:
    """Reads the network anew when a file of it has changed."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._seen: object = None
        self._network: Network | None = None

    def now(self) -> Network:
        """Return the network."""
        seen = [_version(f"{self._run}/{name}") for name in (STATE, ROUTES)]
        if self._network is None or seen != self._seen:
            self._network, self._seen = read_network(self._run), seen
        return self._network


def _version(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


class Steering:
    """Answers the calls of a process that arrive at `listener`, until the last under the filter has ended.

    `pod` has the pod's `ip`, empty on the machine's network, and its `hostname`.
    """

    def __init__(self, loop: Loop, listener: int, pod: Message, network: NetworkFiles) -> None:
        self._loop = loop
        self._listener = listener
        self._pod = pod
        self._network = network
        loop.watch(listener, READ, self._ready)

    def _ready(self, events: int) -> None:
        if not events & READ:
            self._loop.forget(self._listener)
            os.close(self._listener)
            return
        call = notify.receive(self._listener)
        if call is None:
            return
        answered = False
        try:
            answered = self._handle(call)
        except OSError:
            pass  # nobody may look into it: it does what it asked for
        finally:
            if not answered:
                notify.carry_out(self._listener, call)

    def _handle(self, call: Call) -> bool:
        """Change what the call asks for; return whether it is answered already."""
        memory = notify.Memory(call.pid)
        try:
            if not notify.is_waiting(self._listener, call):
                return False
            if call.name == notify.UNAME:
                memory.write(call.arguments[0], named(self._pod["hostname"]))
                notify.answer(self._listener, call)
                return True
            number, place, size = call.arguments[:3]
            data = memory.read(place, min(size, 128))
            family = struct.unpack_from("=H", data)[0] if len(data) >= 2 else socket.AF_UNSPEC
            if family == socket.AF_UNIX and call.name == notify.CONNECT:
                if data[2:].split(b"\0")[0] in _RESOLVERS:
                    notify.answer(self._listener, call, errno.ECONNREFUSED)
                    return True
                return False
            if family != socket.AF_INET or len(data) < 8:
                return False
            address = socket.inet_ntoa(data[4:8]), struct.unpack_from("!H", data, 2)[0]
            self._steer(call, memory, number, place, address)
            return False
        finally:
            memory.close()

    def _steer(self, call: Call, memory: notify.Memory, number: int, place: int, address: Address) -> None:
        network, ip = self._network.now(), self._pod["ip"]
        if call.name == notify.BIND:
            changed = network.bound(address, ip) if ip else None
        else:
            sock = _borrow(call.pid, number)
            try:
                udp = sock is not None and sock.type == socket.SOCK_DGRAM
                servers = resolvers() if address[1] == DNS_PORT else ()
                changed = network.reached(address, "udp" if udp else "tcp", ip, servers)
                to = (changed or address)[0]
                if sock is not None and ip and to.startswith(_LOOPBACK):
                    _come_from(sock, ip)
            finally:
                if sock is not None:
                    sock.close()
        if changed is not None:
            memory.write(place + 2, struct.pack("!H", changed[1]) + socket.inet_aton(changed[0]))


def named(hostname: str) -> bytes:
    """Return a struct utsname with this name."""
    own = os.uname()
    fields = (own.sysname, hostname, own.release, own.version, own.machine, "(none)")
    return b"".join(field.encode()[: _NAME_BYTES - 1].ljust(_NAME_BYTES, b"\0") for field in fields)


def _borrow(pid: int, number: int) -> socket.socket | None:
    """Return a copy of a socket of another process; None where nobody may have one."""
    try:
        return socket.socket(fileno=notify.descriptor_of(pid, number))
    except OSError:
        return None


def _come_from(sock: socket.socket, ip: str) -> None:
    """Have its peer see the pod's address, unless it has one already."""
    try:
        if sock.getsockname()[0] != _ANY:
            return
        if sock.type == socket.SOCK_STREAM:
            sock.setsockopt(socket.IPPROTO_IP, _BIND_NO_PORT, 1)
        sock.bind((ip, 0))
    except OSError:
        return
