"""The cluster's DNS server: the zone from memory, everything else from the host's resolvers.

A query for a pending name waits up to `HOLD` for its address: pods of a job start at once, and a client
that got NXDOMAIN would sleep for seconds before it asks again.
"""

from __future__ import annotations

import os
import socket
import struct

from trainshed.cluster.sandbox.loop import READ, WRITE
from trainshed.cluster.sandbox.net import dnswire
from trainshed.cluster.sandbox.net.budget import Budget
from trainshed.cluster.sandbox.net.zone import Zone, alias_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from trainshed.cluster.sandbox.loop import Loop, Timer
    from trainshed.cluster.sandbox.net.dnswire import Question

    Reply: TypeAlias = Callable[[bytes], None]

DNS_PORT = 53
HOLD = 1.5  # seconds
_UPSTREAM_TIMEOUT = 2.0  # seconds for each of the host's resolvers
_MAX_HELD, _MAX_HELD_OF_CLIENT = 4096, 256
_MAX_FORWARDS, _MAX_FORWARDS_OF_CLIENT = 256, 64
_MAX_STREAMS, _MAX_STREAMS_OF_CLIENT = 256, 32
_MAX_OUTPUT = 256 * 1024
"""Bytes that wait for a TCP client that does not read; then it is hung up on."""
_IDLE = 30.0  # seconds a TCP connection may be quiet


def resolvers(path: str = "/etc/resolv.conf") -> list[str]:
    """Return the host's nameservers, at most three, as the C library reads them."""
    found = []
    try:
        with open(path) as file:
            for line in file:
                fields = line.split()
                if len(fields) >= 2 and fields[0] == "nameserver":
                    found.append(fields[1])
    except OSError:
        pass
    return found[:3]


class NameServer:
    """Answers over `udp` and `tcp`, sockets inside the cluster network. Never raises."""

    def __init__(self, loop: Loop, udp: socket.socket, tcp: socket.socket) -> None:
        self._loop = loop
        self._udp = udp
        self._tcp = tcp
        self._zone = Zone({}, ())
        self._held: list[tuple[Question, Reply, Timer]] = []
        self._holds = Budget(_MAX_HELD, _MAX_HELD_OF_CLIENT)
        self._forwards = Budget(_MAX_FORWARDS, _MAX_FORWARDS_OF_CLIENT)
        self._streams = Budget(_MAX_STREAMS, _MAX_STREAMS_OF_CLIENT)
        loop.watch(udp.fileno(), READ, self._datagram)
        loop.watch(tcp.fileno(), READ, self._accept)

    def set_zone(self, zone: Zone) -> None:
        """Answer from `zone` from now on, and to whoever waited for it."""
        self._zone = zone
        held, self._held = self._held, []
        for question, reply, timer in held:
            if zone.must_wait(question):
                self._held.append((question, reply, timer))
            else:
                timer.cancel()
                reply(zone.answer(question))

    def _datagram(self, events: int) -> None:
        for _ in range(64):  # then the rest of the loop has its turn
            try:
                query, address = self._udp.recvfrom(4096)
            except OSError:
                return
            self._handle(query, self._datagram_reply(query, address), str(address[0]))

    def _datagram_reply(self, query: bytes, address: tuple[str, int]) -> Reply:
        def reply(response: bytes) -> None:
            try:
                size = dnswire.parse_query(query).size
            except ValueError:
                size = dnswire.MAX_UDP
            try:
                self._udp.sendto(dnswire.truncate(response, size), address)
            except OSError:
                pass  # the pod has gone

        return reply

    def _handle(self, query: bytes, reply: Reply, client: str) -> None:
        try:
            question = dnswire.parse_query(query)
        except ValueError:
            response = dnswire.failure(query, dnswire.FORMERR)
            if response:
                reply(response)
            return
        chain = self._zone.aliases(question.name)
        if not self._zone.covers(question.name):
            self._forward(query, reply, client)
        elif chain and not self._zone.covers(chain[-1]) and question.kind != dnswire.TYPE_CNAME:
            self._follow(question, chain, reply, client)
        elif self._zone.must_wait(question) and self._holds.take(client):
            self._hold(question, _giving_back(self._holds, client, reply))
        else:
            reply(self._zone.answer(question))

    def _forward(self, query: bytes, reply: Reply, client: str) -> None:
        if self._forwards.take(client):
            Forward(self._loop, query, resolvers(), _giving_back(self._forwards, client, reply))
        else:
            reply(dnswire.failure(query, dnswire.SERVFAIL))

    def _follow(self, question: Question, chain: list[str], reply: Reply, client: str) -> None:
        """Answer with the aliases and what the machine's resolvers say of the last one."""

        def found(response: bytes) -> None:
            try:
                code, records = dnswire.read_answer(response)
            except ValueError:
                code, records = dnswire.SERVFAIL, []
            reply(dnswire.answer(question, code, [*alias_records(chain), *records]))

        self._forward(dnswire.query(question.ident, chain[-1], question.kind), found, client)

    def _hold(self, question: Question, reply: Reply) -> None:
        def give_up() -> None:
            self._held = [entry for entry in self._held if entry[2] is not timer]
            reply(self._zone.answer(question))

        timer = self._loop.later(HOLD, give_up)
        self._held.append((question, reply, timer))

    def _accept(self, events: int) -> None:
        try:
            sock, address = self._tcp.accept()
        except OSError:
            return
        client = str(address[0])
        if not self._streams.take(client):
            sock.close()
            return
        sock.setblocking(False)
        _Stream(
            self._loop,
            sock,
            lambda query, reply: self._handle(query, reply, client),
            lambda: self._streams.give(client),
        )


def _giving_back(budget: Budget, client: str, reply: Reply) -> Reply:
    """Return `reply`, which is called once, made to give back what was taken."""

    def replied(response: bytes) -> None:
        budget.give(client)
        reply(response)

    return replied


class _Stream:
    """One TCP client: queries with a two-byte length (RFC 1035, 4.2.2)."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        handle: Callable[[bytes, Reply], None],
        on_close: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._on_close = on_close
        self._sock = sock
        self._handle = handle
        self._input = b""
        self._output = b""
        self._timer = loop.later(_IDLE, self._close)
        self._open = True
        loop.watch(sock.fileno(), READ, self._ready)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if not self._open or not events & ~WRITE:
            return
        try:
            data = self._sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        self._timer.cancel()
        self._timer = self._loop.later(_IDLE, self._close)
        self._input += data
        while len(self._input) >= 2:
            (length,) = struct.unpack_from("!H", self._input)
            if len(self._input) < 2 + length:
                return
            query, self._input = self._input[2 : 2 + length], self._input[2 + length :]
            self._handle(query, self._reply)

    def _reply(self, response: bytes) -> None:
        if self._open:
            self._output += struct.pack("!H", len(response)) + response
            self._flush()

    def _flush(self) -> None:
        try:
            self._output = self._output[self._sock.send(self._output) :]
        except BlockingIOError:
            if len(self._output) > _MAX_OUTPUT:
                self._close()
                return
        except OSError:
            self._close()
            return
        self._loop.watch(self._sock.fileno(), READ | (WRITE if self._output else 0), self._ready)

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._timer.cancel()
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self._on_close()


class Forward:
    """One query on its way to the host's resolvers, each in turn; SERVFAIL when none answers.

    The id is replaced by a random one on a socket of its own, so that nobody can guess an answer.
    """

    def __init__(self, loop: Loop, query: bytes, servers: list[str], reply: Reply) -> None:
        self._loop = loop
        self._query = query
        self._servers = servers
        self._reply = reply
        self._ident = int.from_bytes(os.urandom(2), "big")
        self._sock: socket.socket | None = None
        self._timer: Timer | None = None
        self._next()

    def _next(self) -> None:
        self._close()
        if not self._servers:
            self._reply(dnswire.failure(self._query, dnswire.SERVFAIL))
            return
        server = self._servers.pop(0)
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            sock.connect((server, DNS_PORT))
            sock.send(struct.pack("!H", self._ident) + self._query[2:])
        except OSError:
            sock.close()
            self._next()
            return
        self._sock = sock
        self._timer = self._loop.later(_UPSTREAM_TIMEOUT, self._next)
        self._loop.watch(sock.fileno(), READ, self._ready)

    def _ready(self, events: int) -> None:
        if self._sock is None:
            return
        try:
            response = self._sock.recv(65535)
        except BlockingIOError:
            return
        except OSError:  # nothing listens there
            self._next()
            return
        if len(response) < 12 or struct.unpack_from("!H", response)[0] != self._ident:
            return
        self._close()
        self._reply(self._query[:2] + response[2:])

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sock is not None:
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self._sock = None
