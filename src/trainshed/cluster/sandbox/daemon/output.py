"""What a container prints: to its log, and to the clients that are attached to it."""

from __future__ import annotations

import os
import time

from trainshed.cluster.sandbox.daemon.crilog import CriLog
from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.daemon.peers import Peer
    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.wire import Message

RETRY_SECONDS = 0.5  # between attempts to write to a full disk
MAX_RETRIES = 20  # after the container's end; then the rest of the log is given up
_READ_SIZE = 65536
_KEPT = 16 * _READ_SIZE
"""Bytes of freed memory that stay with a process whose container prints a lot: the buffers of a read and its log."""
_MAX_EARLY = 65536


class Output:
    """The pipes or the terminal of a container, read to their end.

    With `keep_early`, of a container that is made to be attached to (`kubectl run -i`, `debug -i`), the first client
    gets what was printed before it came.
    """

    def __init__(self, loop: Loop, log_path: str, *, keep_early: bool) -> None:
        self.clients: list[Peer] = []
        self._loop = loop
        self._log = CriLog(log_path)
        self._streams: dict[int, tuple[bytes, int, bool]] = {}
        self._early: list[tuple[int, bytes]] | None = [] if keep_early else None
        self._early_size = 0
        self._retrying = False
        self._retries = 0
        self._ended = False
        self._is_large = False

    def read_from(self, fd: int, name: bytes, kind: int, *, closes: bool = True) -> None:
        """Read a stream, which the log calls `name` and clients `kind`; it is closed at its end if `closes`."""
        os.set_blocking(fd, False)
        self._streams[fd] = (name, kind, closes)
        self._watch(fd)

    def send_to(self, peer: Peer) -> None:
        """Stream what is printed to a client from now on, the first one what came before, too."""
        early, self._early = self._early or (), None
        for kind, data in early:
            peer.stream(kind, data)
        self.clients.append(peer)

    def forget(self, peer: Peer) -> None:
        """Let go of a client."""
        if peer in self.clients:
            self.clients.remove(peer)

    def end(self) -> None:
        """Log what is left in the pipes: every writer is dead when process 1 of the namespace is."""
        self._ended = True
        for fd, (name, kind, _) in list(self._streams.items()):
            while fd in self._streams:
                try:
                    data = os.read(fd, _READ_SIZE)
                except OSError:
                    data = b""
                if data:
                    self._hand_on(name, kind, data)
                else:
                    self._close(fd)
        self._log.end(time.time_ns())

    def is_written(self) -> bool:
        """Return whether the log is written to its end, or given up, and closed; otherwise ask again in a while."""
        self._log.flush()
        if self._log.blocked and self._retries < MAX_RETRIES:
            self._retries += 1
            return False
        self._log.close()
        return True

    def finish(self, answer: Message) -> None:
        """Tell the clients how it ended, and let go of them."""
        for peer in self.clients:
            peer.on_close = None
            peer.answer(answer)
            peer.finish()
        self.clients = []

    def discard(self) -> None:
        """Close the log of a container that was never made."""
        self._log.close()

    def _watch(self, fd: int) -> None:
        self._loop.watch(fd, READ, lambda _: self._ready(fd))

    def _ready(self, fd: int) -> None:
        if self._retrying:
            self._loop.forget(fd)
            return
        try:
            data = os.read(fd, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last process has closed the terminal
            data = b""
        if not data:
            self._close(fd)
            return
        name, kind, _ = self._streams[fd]
        self._hand_on(name, kind, data)
        if self._log.blocked:
            self._retrying = True
            self._loop.forget(fd)
            self._loop.later(RETRY_SECONDS, self._retry)

    def _hand_on(self, name: bytes, kind: int, data: bytes) -> None:
        if len(data) == _READ_SIZE and not self._is_large:
            self._is_large = True
            syscalls.keep_freed(_KEPT)
        self._log.write(name, data, time.time_ns())
        for peer in list(self.clients):
            peer.stream(kind, data)
        if self._early is not None:
            self._early.append((kind, data))
            self._early_size += len(data)
            if self._early_size > _MAX_EARLY:
                self._early = None  # the log has it all

    def _retry(self) -> None:
        """Try again to write what the disk had no room for; the container waits on its pipes meanwhile."""
        self._log.flush()
        if self._log.blocked and not self._ended:
            self._loop.later(RETRY_SECONDS, self._retry)
            return
        self._retrying = False
        for waiting in self._streams:
            self._watch(waiting)

    def _close(self, fd: int) -> None:
        self._loop.forget(fd)
        _, _, closes = self._streams.pop(fd)
        if closes:
            os.close(fd)
