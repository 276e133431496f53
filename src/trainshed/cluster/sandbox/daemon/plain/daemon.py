"""sandboxd of plain pods: forks a shim per pod, and holds the cluster's block of loopback addresses.

    daemon <run directory> <pods directory>

It is served at the same socket as the sandboxes' and answers the same requests.
"""

from __future__ import annotations

import errno
import json
import os
import socket

from trainshed.cluster.sandbox import files, podlock, wire
from trainshed.cluster.sandbox.daemon import keepers, launching
from trainshed.cluster.sandbox.daemon.launching import LaunchError
from trainshed.cluster.sandbox.daemon.plain.shim import PlainShim
from trainshed.cluster.sandbox.daemon.zygote import Zygote
from trainshed.cluster.sandbox.linux import limits, syscalls
from trainshed.cluster.sandbox.net import ipam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.daemon.shim import Shim
    from trainshed.cluster.sandbox.wire import Message

BLOCK = "block.json"
"""In the run directory: the block of addresses of last time."""
_BLOCKS = range(64, 224)
"""127.<block>.0.0/16 each."""


def main(argv: list[str]) -> int:
    """Launch the daemon; one line of JSON tells the outcome."""
    run, pods = argv
    limits.forget_oom_score()
    answer = launching.launch(lambda report: _daemon(run, pods, report))
    print(answer.decode().strip() or json.dumps(launching.SILENT))  # noqa: T201 - read by the control plane
    return 0


def _daemon(run: str, pods: str, report: int) -> NoReturn:
    def work() -> None:
        launching.begin_session()
        syscalls.set_process_name("trainshed-sandboxd")
        lock = launching.take_lock(run)
        block, held = take_block(run, pods)
        daemon = PlainDaemon(run, pods, lock, block, held)
        launching.has_started(report, adopted=False)
        daemon.run()

    launching.end_with(report, work)


def take_block(run: str, pods: str) -> tuple[int, socket.socket | None]:
    """Return a block that no other cluster of this machine has, that of last time if it can be had, and what holds it.

    It is held by the name of a socket, which daemon and shims have: so it is free again when the last has ended. None
    where only shims of this cluster have it. Raises LaunchError.
    """
    last = (files.read_state(f"{run}/{BLOCK}") or {}).get("block")
    if last and (held := _hold(last)) is not None:
        return last, held
    if last and any(podlock.is_held(f"{pods}/{uid}") for uid in os.listdir(pods)):
        return last, None
    for block in _BLOCKS:
        if (held := _hold(block)) is not None:
            files.write_state(f"{run}/{BLOCK}", {"block": block})
            return block, held
    raise LaunchError("start", "every block of loopback addresses is in use")


def _hold(block: int) -> socket.socket | None:
    """Return what holds a block; None where another has it."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(f"\0trainshed-127.{block}")
    except OSError as error:
        sock.close()
        if error.errno != errno.EADDRINUSE:
            raise LaunchError("start", f"no block of addresses: {error.strerror}") from None
        return None
    return sock


class PlainDaemon(Zygote):
    """Serves `sandboxd.sock`."""

    def __init__(self, run: str, pods: str, lock: int, block: int, held: socket.socket | None) -> None:
        super().__init__(run, pods, user=-1, cluster=-1, lock=lock, hierarchy=None, prefix=f"127.{block}.")
        self._block, self._held = block, held

    def _request(self, peer: Peer, message: Message) -> None:
        if message.get("op") == "ping":
            state = {"pid": os.getpid(), "protocol": wire.PROTOCOL, "isolation": "plain"}
            peer.answer({**state, "keepers": keepers.of_plain()})
        elif message.get("op") in ("namespaces", "listen", "sockets", "forward", "interface"):
            peer.answer({"failure": "plain pods have no network of their own"})
        else:
            super()._request(peer, message)

    def _fork_shim(self) -> int:
        if self._held is None:  # the shims that had it may have ended
            self._held = _hold(self._block)
        return os.fork()

    def _make_shim(self, spec: Message, pod: str, lock: int, ip: str) -> Shim:
        return PlainShim(spec, pod, lock, ip, f"{self._run}/{ipam.DIRECTORY}", self._run)
