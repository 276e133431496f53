"""Datagrams from the address of a Service to its endpoints, and answers back to the client's port that they are for."""

from __future__ import annotations

import socket
import time
from collections import OrderedDict

from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.net.budget import Budget
from trainshed.cluster.sandbox.net.forwarding import TURN, dialled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.net.forwarding import Address, Endpoints, Open

MAX_SESSIONS = 2048
MAX_SESSIONS_OF_CLIENT = 512
"""As connections of TCP: one for each port of a client."""
UDP_IDLE_SECONDS = 60.0
_DATAGRAM = 65535
_buffer = bytearray(_DATAGRAM)
_view = memoryview(_buffer)


class UdpPort:
    """A socket whose datagrams lead to endpoints: one for each client, until it has been quiet for a while."""

    def __init__(
        self, loop: Loop, sock: socket.socket, endpoints: Endpoints, open_socket: Open, budget: Budget
    ) -> None:
        self.endpoints = endpoints
        self._loop = loop
        self._sock = sock
        self._open = open_socket
        self._budget = budget
        self._sessions: OrderedDict[Address, _Session] = OrderedDict()
        self._timer = loop.later(UDP_IDLE_SECONDS, self._sweep)
        sock.setblocking(False)
        loop.watch(sock.fileno(), READ, self._from_clients)

    def close(self) -> None:
        """Refuse what comes from now on and end what there is."""
        self._timer.cancel()
        for client in list(self._sessions):
            self._end(client)
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    def endpoints_changed(self) -> None:
        """Let go of endpoints that are no more: their clients get another one."""
        for client, session in list(self._sessions.items()):
            if session.address not in self.endpoints.everywhere:
                self._end(client)

    def _from_clients(self, events: int) -> None:
        for _ in range(TURN):
            try:
                size, client = self._sock.recvfrom_into(_buffer, _DATAGRAM)
            except OSError:
                return
            session = self._session((str(client[0]), int(client[1])))
            if session is not None:
                try:
                    session.sock.send(_view[:size])
                except OSError:
                    continue  # full, or refused: datagrams get lost

    def _session(self, client: Address) -> _Session | None:
        now = time.monotonic()
        session = self._sessions.get(client)
        if session is None:
            session = self._begin(client, now)
            if session is None:
                return None
        session.used = now
        self._sessions.move_to_end(client)
        return session

    def _begin(self, client: Address, now: float) -> _Session | None:
        chosen = self.endpoints.choose(client[0], now)
        if not chosen or not self._take(client[0]):
            return None
        try:
            sock = self._open("udp", chosen[0][0])
        except OSError:
            self._budget.give(client[0])
            return None
        sock.setblocking(False)
        if sock.connect_ex(dialled(chosen[0])):
            sock.close()
            self._budget.give(client[0])
            return None
        session = self._sessions[client] = _Session(sock, chosen[0])
        self.endpoints.remember(client[0], chosen[0], now)
        self._loop.watch(sock.fileno(), READ, lambda events: self._from_endpoint(client, session))
        return session

    def _take(self, name: str) -> bool:
        """Return whether there may be one more of this client; its oldest one here ends for that."""
        if self._budget.take(name):
            return True
        oldest = next((client for client in self._sessions if client[0] == name), None)
        if oldest is None:
            return False
        self._end(oldest)
        return self._budget.take(name)

    def _from_endpoint(self, client: Address, session: _Session) -> None:
        for _ in range(TURN):
            try:
                size = session.sock.recv_into(_buffer, _DATAGRAM)
            except BlockingIOError:
                break
            except OSError:  # nobody listens there
                self._end(client)
                return
            try:
                self._sock.sendto(_view[:size], client)
            except OSError:
                continue
        session.used = time.monotonic()

    def _end(self, client: Address) -> None:
        session = self._sessions.pop(client, None)
        if session is not None:
            self._loop.forget(session.sock.fileno())
            session.sock.close()
            self._budget.give(client[0])

    def _sweep(self) -> None:
        before = time.monotonic() - UDP_IDLE_SECONDS
        for client, session in list(self._sessions.items()):
            if session.used < before:
                self._end(client)
        self._timer = self._loop.later(UDP_IDLE_SECONDS / 4, self._sweep)


class _Session:
    __slots__ = ("address", "sock", "used")

    def __init__(self, sock: socket.socket, address: Address) -> None:
        self.sock = sock
        self.address = address
        self.used = 0.0
