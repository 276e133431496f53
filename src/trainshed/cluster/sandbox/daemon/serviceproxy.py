"""The process that forwards what is sent to Services: `net/forwarding`, inside the cluster's network.

Started by netd, with which it ends. Its threads are in two networks, for a socket belongs to the one of its maker:

    main       the cluster's: listeners on the addresses of Services, connections to pods
    machine    the machine's: connections to endpoints outside the cluster

Listeners on the machine's loopback come from netd, which may be root there, and so do those that it held before this
process was needed. Over one socket, message by message:

    netd ▸ {"host", "protocol", "ip", "port"} with a descriptor     a listener, of the machine if `host`
    netd ▸ {"number"}                                               the file of routes has changed
    netd ◂ number                                                   what it says is in force
"""

from __future__ import annotations

import _thread
import gc
import json
import os
import signal
import socket
import struct

from trainshed.cluster.sandbox import files, logfile, wire
from trainshed.cluster.sandbox.addresses import MACHINE, is_cluster, is_local
from trainshed.cluster.sandbox.daemon.servicepost import CHANNEL, DESCRIPTORS, NETWORK, ROUTES, USER
from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.loop import READ, Loop, record_crash
from trainshed.cluster.sandbox.net import clusternet
from trainshed.cluster.sandbox.net.budget import MAX_OF_CLIENT, Budget
from trainshed.cluster.sandbox.net.forwarding import (
    MAX_CONNECTIONS,
    Endpoints,
    TcpPort,
    descriptors_allowed,
)
from trainshed.cluster.sandbox.net.groups import groups_of
from trainshed.cluster.sandbox.net.udpforwarding import MAX_SESSIONS, MAX_SESSIONS_OF_CLIENT, UdpPort

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.servicepost import Key
    from trainshed.cluster.sandbox.wire import Message


def main(argv: list[str]) -> int:
    """Forward until netd ends: `serviceproxy <run directory>`, and `machine` where that is the network of pods."""
    run, *on_machine = argv
    syscalls.set_process_name("trainshed-services")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in DESCRIPTORS[: 1 if on_machine else None]:
        os.set_inheritable(number, False)
    try:
        machine = None
        if not on_machine:
            syscalls.setns(USER, syscalls.CLONE_NEWUSER)
            machine = MachineSockets()
            syscalls.setns(NETWORK, syscalls.CLONE_NEWNET)
        Forwarder(Loop(), socket.socket(fileno=CHANNEL), f"{run}/{ROUTES}", machine).run()
    except BaseException:
        record_crash()
        return 1
    return 0


class MachineSockets:
    """Makes sockets on the machine's network, in a thread that stays there."""

    def __init__(self) -> None:
        asked, self._asking = os.pipe()
        self._answers, answering = os.pipe()
        _thread.start_new_thread(_make_sockets, (asked, answering))

    def open(self, kind: int) -> socket.socket:
        """Return a new socket of SOCK_STREAM or SOCK_DGRAM. Raises OSError."""
        os.write(self._asking, bytes([kind]))
        (number,) = struct.unpack("=i", os.read(self._answers, 4))
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        return socket.socket(fileno=number)


def end_with_parent() -> None:
    """Have the kernel end this process with the one that started it; it forgets that where the user changes."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def _make_sockets(asked: int, answering: int) -> None:
    while kind := os.read(asked, 1):
        try:
            number = socket.socket(socket.AF_INET, kind[0]).detach()
        except OSError as error:
            number = -(error.errno or 1)
        os.write(answering, struct.pack("=i", number))


class Forwarder:
    """Keeps a listener for each route that leads somewhere.

    Without `machine` pods are on this very network; connections of theirs are steered, and only others come here.
    """

    def __init__(self, loop: Loop, channel: socket.socket, path: str, machine: MachineSockets | None) -> None:
        self._loop = loop
        self._channel = channel
        self._path = path
        self._machine = machine
        self._ports: dict[Key, TcpPort | UdpPort] = {}
        self._passed: dict[Key, socket.socket] = {}
        room = descriptors_allowed() // 4  # two of a connection; listeners need some, too
        self._connections = Budget(min(MAX_CONNECTIONS, room), MAX_OF_CLIENT)
        self._sessions = Budget(min(MAX_SESSIONS, room), MAX_SESSIONS_OF_CLIENT)
        channel.setblocking(False)
        loop.watch(channel.fileno(), READ, self._hear)

    def run(self) -> None:
        """Forward until netd is gone."""
        end_with_parent()
        logfile.keep(self._loop)
        gc.collect()
        self._loop.run()

    def _hear(self, events: int) -> None:
        """Take one message. What goes wrong with it ends the process: netd, if it lives, starts another.

        To go on without the channel would be to forward for ever, by routes of nobody.
        """
        try:
            data, descriptors = wire.receive(self._channel)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._loop.stop()
            return
        try:
            self._take(json.loads(data), descriptors)
        except Exception as error:
            self._loop.stop()
            if not isinstance(error, ConnectionError):  # or netd is gone
                record_crash()

    def _take(self, message: Message, descriptors: list[int]) -> None:
        if descriptors:
            key = (message["host"], message["protocol"], message["ip"], message["port"])
            old = self._passed.pop(key, None)
            if old is not None:
                old.close()
            self._passed[key] = wire.adopt(descriptors[0])
        else:
            self._apply((files.read_state(self._path) or {}).get("routes", []))
            self._channel.send(str(message["number"]).encode())

    def _apply(self, routes: list[Message]) -> None:
        wanted = {
            (bool(route["host"]), route["protocol"], route["ip"], int(route["port"])): route
            for route in routes
            if route["host"] or self._machine is not None
        }
        for key in [key for key in self._ports if key not in wanted]:
            self._ports.pop(key).close()
        for key in [key for key in self._passed if key not in wanted]:
            self._passed.pop(key).close()
        for key, route in wanted.items():
            endpoints = [(str(ip), int(port)) for ip, port in route["endpoints"]]
            port = self._ports.get(key)
            groups = groups_of(route)
            if port is None:
                self._open(key, Endpoints(endpoints, route["affinity_seconds"], groups))
                continue
            port.endpoints.replace(endpoints, route["affinity_seconds"], groups)
            if isinstance(port, UdpPort):
                port.endpoints_changed()

    def _open(self, key: Key, endpoints: Endpoints) -> None:
        host, protocol, ip, number = key
        sock = self._passed.pop(key, None)
        if sock is None:
            if host:
                return  # another program has the port
            try:
                sock = clusternet.open_listener(ip, number, protocol)
            except OSError as error:
                os.write(2, f"cannot listen on {ip}:{number}/{protocol}: {error}\n".encode())
                return
        if protocol == "udp":
            self._ports[key] = UdpPort(self._loop, sock, endpoints, self._socket, self._sessions)
        else:
            self._ports[key] = TcpPort(self._loop, sock, endpoints, self._socket, self._connections)

    def _socket(self, protocol: str, ip: str) -> socket.socket:
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        if self._machine is None:
            return socket.socket(socket.AF_INET, kind)
        if ip == MACHINE:
            return self._machine.open(kind)
        if is_cluster(ip):
            return socket.socket(socket.AF_INET, kind)
        if is_local(ip):  # what listens there often trusts every caller
            raise OSError(f"{ip} is an address of this machine")
        return self._machine.open(kind)
