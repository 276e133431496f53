"""Connections that are made for a client, in the network of the process that it asks."""

from __future__ import annotations

import errno
import socket

from trainshed.cluster.sandbox.loop import WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.loop import Loop


def dial(loop: Loop, peer: Peer, address: str, port: int) -> None:
    """Connect to an IP address; answer `peer` with a descriptor, or with the number of the error."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    code = sock.connect_ex((address, port))

    def finish(events: int) -> None:
        loop.forget(sock.fileno())
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            sock.close()
            peer.answer({"refused": failed})
        else:
            peer.answer({"connected": True}, [sock.detach()])

    if code not in (0, errno.EINPROGRESS):
        sock.close()
        peer.answer({"refused": code})
        return
    loop.watch(sock.fileno(), WRITE, finish)
