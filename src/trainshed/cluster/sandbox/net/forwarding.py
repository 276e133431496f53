"""Connections from the address of a Service to its endpoints, as kube-proxy routes them.

A listener per port of a Service accepts inside the cluster network, or on the machine's loopback for node ports, and
each connection is joined to one to an endpoint. A Service without endpoints has no listener: the kernel refuses
then, as kube-proxy does. What is on its way is in the sockets' own buffers only: bytes are looked at, sent on, and
taken only as far as the other end took them.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
import time
from collections import OrderedDict

from trainshed.cluster.sandbox.addresses import GATEWAY, MACHINE, is_pod
from trainshed.cluster.sandbox.loop import READ, WRITE
from trainshed.cluster.sandbox.net.budget import MAX_REMEMBERED, Budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.loop import Loop, Timer
    from trainshed.cluster.sandbox.net.groups import Groups

    Address: TypeAlias = tuple[str, int]
    Open: TypeAlias = Callable[[str, str], socket.socket]
    """From (`tcp` or `udp`, IP address of an endpoint) to a socket from which it can be reached."""

MAX_CONNECTIONS = 4096
_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 10.0
_CHUNK = 128 * 1024
TURN = 64  # accepts or datagrams, then the rest of the loop has its turn
_ACCEPT_PAUSE = 0.2  # seconds, when there is no descriptor left
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: what closes sends a reset
_RANDOM = random.Random()  # noqa: S311 - spreads load
_buffer = bytearray(_CHUNK)
_view = memoryview(_buffer)


class Endpoints:
    """Where one port leads: any of its endpoints, or with `affinity` seconds the one that the client had last.

    With `groups` a pod has those of its group.
    """

    def __init__(self, addresses: Sequence[Address], affinity: float, groups: Groups = ()) -> None:
        self._remembered: OrderedDict[str, tuple[Address, float]] = OrderedDict()
        self.replace(addresses, affinity, groups)

    def replace(self, addresses: Sequence[Address], affinity: float, groups: Groups = ()) -> None:
        """Lead elsewhere; clients keep the endpoints that are still there."""
        self.addresses = tuple(addresses)
        self.affinity = affinity
        self._own = {client: endpoints for clients, endpoints in groups for client in clients}
        self.everywhere = set(self.addresses).union(*(endpoints for _, endpoints in groups))
        if not affinity:
            self._remembered.clear()

    def choose(self, client: str, now: float) -> list[Address]:
        """Return the endpoints to try, in this order."""
        grouped = self._own and is_pod(client) and client != GATEWAY
        order = list(self._own.get(client, ()) if grouped else self.addresses)
        _RANDOM.shuffle(order)
        if self.affinity:
            known = self._remembered.get(client)
            if known is not None and known[1] > now and known[0] in order:
                order.remove(known[0])
                order.insert(0, known[0])
        return order

    def remember(self, client: str, address: Address, now: float) -> None:
        """Take note of the endpoint that a client has; its time begins anew."""
        if not self.affinity:
            return
        self._remembered[client] = address, now + self.affinity
        self._remembered.move_to_end(client)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


class TcpPort:
    """A listener whose connections lead to endpoints. Those that are joined stay when it is closed."""

    def __init__(
        self, loop: Loop, listener: socket.socket, endpoints: Endpoints, open_socket: Open, budget: Budget
    ) -> None:
        self.endpoints = endpoints
        self._loop = loop
        self._listener = listener
        self._open = open_socket
        self._budget = budget
        self._closed = False
        listener.setblocking(False)
        self._watch()

    def close(self) -> None:
        """Refuse what comes from now on."""
        self._closed = True
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def _watch(self) -> None:
        if not self._closed:
            self._loop.watch(self._listener.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        for _ in range(TURN):
            try:
                client, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._loop.forget(self._listener.fileno())  # or it would be ready again and again
                    self._loop.later(_ACCEPT_PAUSE, self._watch)
                return
            client.setblocking(False)
            if not self._budget.take(str(address[0])):
                abort(client)
                continue
            _Connection(self._loop, client, str(address[0]), self.endpoints, self._open, self._budget)


class _Connection:
    """One client, on its way to an endpoint and then joined to it."""

    def __init__(
        self,
        loop: Loop,
        client: socket.socket,
        name: str,
        endpoints: Endpoints,
        open_socket: Open,
        budget: Budget,
    ) -> None:
        self._loop = loop
        self._client = client
        self._name = name
        self._endpoints = endpoints
        self._open = open_socket
        self._budget = budget
        self._left = endpoints.choose(name, time.monotonic())
        self._server: socket.socket | None = None
        self._timer: Timer | None = None
        self._next()

    def _next(self) -> None:
        """Try the next endpoint. Another one is better than none: this one's pod may have gone a moment ago."""
        self._forget_server()
        while self._left:
            address = self._left.pop(0)
            try:
                server = self._open("tcp", address[0])
            except OSError:
                break
            if self._dial(server, address):
                return
        abort(self._client)
        self._budget.give(self._name)

    def _dial(self, server: socket.socket, address: Address) -> bool:
        """Return whether a connection is on its way."""
        server.setblocking(False)
        if server.connect_ex(dialled(address)) not in (0, errno.EINPROGRESS):
            server.close()
            return False
        self._server = server
        self._timer = self._loop.later(_CONNECT_SECONDS, self._next)
        self._loop.watch(server.fileno(), WRITE, lambda events: self._connected(server, address))
        return True

    def _connected(self, server: socket.socket, address: Address) -> None:
        if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._next()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._loop.forget(server.fileno())
        self._endpoints.remember(self._name, address, time.monotonic())
        budget, name = self._budget, self._name
        Joint(self._loop, self._client, server, lambda: budget.give(name))

    def _forget_server(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._loop.forget(self._server.fileno())
            self._server.close()
            self._server = None


class Joint:
    """Two connections of which each gets what the other sends, until both have ended; `on_close` is called then.

    The end of one direction is passed on by itself. A reset of one side resets the other.
    """

    def __init__(
        self, loop: Loop, one: socket.socket, other: socket.socket, on_close: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._on_close = on_close
        self._open = True
        self._ways = (_Way(one, other), _Way(other, one))
        for sock in (one, other):
            _keep_alive(sock)
        for number in (0, 1):
            self._watch(number)

    def _watch(self, number: int) -> None:
        """Watch the socket that this way begins at, for what can be done about it now."""
        way, back = self._ways[number], self._ways[1 - number]
        wanted = (READ if not (way.ended or way.blocked) else 0) | (WRITE if back.blocked else 0)
        if wanted == way.watched:
            return
        way.watched = wanted
        if wanted:
            self._loop.watch(way.source.fileno(), wanted, lambda events: self._ready(number, events))
        else:  # even one that is watched for nothing would be reported when its peer is gone
            self._loop.forget(way.source.fileno())

    def _ready(self, number: int, events: int) -> None:
        way, back = self._ways[number], self._ways[1 - number]
        try:
            if back.blocked and events & ~READ:
                back.move()
            if self._open and not (way.ended or way.blocked) and events & ~WRITE:
                way.move()
        except OSError:
            self._close(broken=True)
            return
        if way.ended and back.ended:
            self._close(broken=False)
            return
        self._watch(0)
        self._watch(1)

    def _close(self, *, broken: bool) -> None:
        self._open = False
        for way in self._ways:
            self._loop.forget(way.source.fileno())
            if broken:
                abort(way.source)
            else:
                way.source.close()
        self._on_close()


class _Way:
    """One direction. `blocked`: its sink takes no more for now; `ended`: its source has said that it sends no more."""

    __slots__ = ("blocked", "ended", "sink", "source", "watched")

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.blocked = False
        self.ended = False
        self.watched = 0

    def move(self) -> None:
        """Pass on what there is, a part at a time. Raises OSError when one of the two is gone."""
        self.blocked = False
        try:
            size = self.source.recv_into(_buffer, _CHUNK, socket.MSG_PEEK)
        except BlockingIOError:
            return
        if not size:
            self.ended = True
            try:
                self.sink.shutdown(socket.SHUT_WR)
            except OSError as error:
                if error.errno != errno.ENOTCONN:
                    raise
            return
        try:
            sent = self.sink.send(_view[:size])
        except BlockingIOError:
            sent = 0
        if sent:
            self.source.recv_into(_buffer, sent, socket.MSG_TRUNC)  # thrown away, without a copy
        self.blocked = sent < size


def abort(sock: socket.socket) -> None:
    """Close a connection with a reset: its peer learns that this was no ordinary end."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    except OSError:
        pass
    sock.close()


def _keep_alive(sock: socket.socket) -> None:
    """Find out in a minute and a half that a peer is gone without a word, and send what is small at once."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def descriptors_allowed() -> int:
    """Return how many descriptors this process may have open, after asking for as many as it may ask for."""
    import resource  # of one process only

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(soft, 1 << 20) if soft > 0 else os.sysconf("SC_OPEN_MAX")


def dialled(endpoint: Address) -> Address:
    """Return where an endpoint is dialled."""
    return (_LOOPBACK, endpoint[1]) if endpoint[0] == MACHINE else endpoint
