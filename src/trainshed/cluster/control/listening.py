"""The socket of the API on loopback, at the port of last time where that is free."""

from __future__ import annotations

import random
import socket

from trainshed.cluster.control import kubeconfig
from trainshed.cluster.control.errors import CannotStart
from trainshed.cluster.paths import StatePaths

LOOPBACK = "127.0.0.1"
_PORTS = range(20000, 32000)


def listen(paths: StatePaths, wanted: int) -> socket.socket:
    """Return the listening socket on loopback: the wanted port, that of last time, or any free one.

    The port of last time keeps kubeconfigs valid that were merged or copied.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for port in (wanted,) if wanted else _candidate_ports(paths):
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            if wanted:
                listener.close()
                raise CannotStart(
                    f"port {wanted} is taken: {error.strerror}", "choose another --port"
                ) from error
            continue
        listener.listen(512)
        listener.setblocking(False)
        return listener
    raise CannotStart("no free port on 127.0.0.1")


def _candidate_ports(paths: StatePaths) -> list[int]:
    """Return the ports to try, best first.

    Below the ephemeral range (ip(7), ip_local_port_range): no outgoing connection takes the port while the
    control plane is down.
    """
    last = kubeconfig.port_of(paths.kubeconfig)
    chosen = random.sample(_PORTS, 16)
    return [*([last] if last else []), *chosen, 0]
