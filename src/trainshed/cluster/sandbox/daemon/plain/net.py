"""netd of plain pods: names, node ports, and listeners of the control plane, on the machine's own network.

    net <run directory> <pods directory>

What it opens it tells the shims by a file (`steering.STATE`). Connections of pods to Services are steered by their
shims; the process that forwards has ports of the machine only.
"""

from __future__ import annotations

import socket

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.daemon import netd
from trainshed.cluster.sandbox.daemon.plain.daemon import BLOCK
from trainshed.cluster.sandbox.daemon.plain.steering import STATE
from trainshed.cluster.sandbox.net import clusternet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.peers import Peer

_TRIES = 16


def main(argv: list[str]) -> int:
    """Launch the daemon. One line of JSON tells the outcome."""
    run, pods = argv
    return netd.launch(run, lambda: PlainNet(run, pods))


class PlainNet(netd.Daemon):
    """Serves `netd.sock`, and DNS at a port of its own."""

    def _enter(self, pods: str) -> tuple[int, int]:
        block = files.read_state(f"{self._run}/{BLOCK}") or {}
        self._prefix = f"127.{block['block']}."
        self._route = True
        udp, tcp = _pair(f"{self._prefix}0.1")
        self._dns_port = udp.getsockname()[1]
        self._opened: list[tuple[str, int, int]] = []
        self._tell_shims()
        return udp.detach(), tcp.detach()

    def _start_translation(self) -> None:
        """Shims steer connections to Services."""

    def _listen(self, peer: Peer, ip: str, port: int) -> None:
        super()._listen(peer, ip, port)
        self._tell_shims()

    def _open(self, ip: str, port: int, kind: str) -> int:
        """Open what stands for a place of the cluster: pods are led to it."""
        listener = clusternet.open_listener(f"{self._prefix}0.1", 0, kind)
        self._opened.append((ip, port, listener.getsockname()[1]))
        return listener.detach()

    def _tell_shims(self) -> None:
        state = {"prefix": self._prefix, "dns": self._dns_port, "listeners": self._opened}
        files.write_state(f"{self._run}/{STATE}", state)


def _pair(ip: str) -> tuple[socket.socket, socket.socket]:
    """Return a UDP socket and a TCP listener with the same port. Raises OSError."""
    for _ in range(_TRIES):
        udp = clusternet.open_listener(ip, 0, "udp")
        try:
            return udp, clusternet.open_listener(ip, udp.getsockname()[1], "tcp")
        except OSError:
            udp.close()
    raise OSError(f"no port is free at {ip}")
