"""The cluster network as the proxy needs it: whom a name means to a pod, and connections to pods."""

from __future__ import annotations

import _thread
import time

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.net import ipam
from trainshed.cluster.sandbox.net.nameserver import HOLD
from trainshed.cluster.sandbox.net.zone import Zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_POLL = 0.05  # seconds between looks for an address that may come


class Inside:
    """`addresses` and `pods` are the directories of sandboxd; `open_sockets` returns descriptors of
    unconnected TCP sockets that were made in the cluster network. Used by the proxy's threads."""

    def __init__(self, addresses: str, pods: str, open_sockets: Callable[[], list[int]]) -> None:
        self.zone = Zone({}, ())
        self._addresses = addresses
        self._pods = pods
        self._open_sockets = open_sockets
        self._sockets: list[int] = []
        self._lock = _thread.allocate_lock()

    def find(self, host: str, client: str) -> tuple[str, ...] | None:
        """Return what the DNS tells the pod at `client`; empty: no address yet, None: no cluster's name."""
        namespace = self.namespace(client)
        deadline = time.monotonic() + HOLD
        while True:
            found = self.zone.find(host, namespace)
            if found != () or time.monotonic() >= deadline:
                return found
            time.sleep(_POLL)

    def canonical(self, host: str, client: str) -> str:
        """Return the name that `host` stands for, as the DNS tells the pod at `client`: itself, mostly."""
        return self.zone.canonical(host, self.namespace(client))

    def namespace(self, client: str) -> str:
        """Return the namespace of the pod that has the address; empty when there is none."""
        uid = ipam.owner(self._addresses, client)
        state = files.read_state(f"{self._pods}/{uid}/sandbox/{files.SANDBOX}") if uid else None
        return str(state["namespace"]) if state else ""

    def dial(self, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connection, made inside the cluster network. Raises OSError."""
        sock = wire.adopt(self._take())
        try:
            sock.settimeout(timeout)
            sock.connect((address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _take(self) -> int:
        # One thread asks at a time: each question costs sandboxd a process.
        with self._lock:
            if not self._sockets:
                self._sockets = self._open_sockets()
            return self._sockets.pop()
