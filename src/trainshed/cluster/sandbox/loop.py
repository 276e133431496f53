"""A poll loop: callbacks by file descriptor and by time. asyncio would cost each shim 9 MB."""

from __future__ import annotations

import heapq
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Timer:
    """A call in the future that can be cancelled."""

    def __init__(self, when: float, number: int, call: Callable[[], None]) -> None:
        self._order = (when, number)
        self.when = when
        self.call = call
        self.cancelled = False

    def __lt__(self, other: Timer) -> bool:
        return self._order < other._order

    def cancel(self) -> None:
        """The call will not be made."""
        self.cancelled = True


class Loop:
    """Runs callbacks until `stop`. A callback must not block.

    One that raises is a bug; it is recorded and costs its own descriptor only, for the loop owns a pod.
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._number = 0
        self._running = True

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler(ready events)` while `fd` is ready, with hang-ups and errors; once per descriptor."""
        if fd in self._handlers:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Stop watching `fd`; call it before closing. Unknown descriptors are let pass."""
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, `seconds` from now."""
        self._number += 1
        timer = Timer(time.monotonic() + seconds, self._number, call)
        heapq.heappush(self._timers, timer)
        return timer

    def stop(self) -> None:
        """Return from `run` after the callbacks at hand."""
        self._running = False

    def run(self) -> None:
        """Run callbacks until `stop`."""
        while self._running:
            self.run_once()

    def run_once(self, timeout: float = -1) -> None:
        """Wait for events, at most `timeout` seconds (-1: for ever), and run what is due."""
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            due = max(0.0, self._timers[0].when - time.monotonic())
            timeout = due if timeout < 0 else min(due, timeout)
        for fd, events in self._poll.poll(timeout):
            handler = self._handlers.get(fd)  # an earlier callback of this round may have forgotten it
            if handler is not None:
                try:
                    handler(events)
                except Exception:
                    record_crash()
                    self.forget(fd)
        now = time.monotonic()
        while self._timers and self._timers[0].when <= now:
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                try:
                    timer.call()
                except Exception:
                    record_crash()

    def close(self) -> None:
        """Release the epoll descriptor: a forked child closes its parent's."""
        self._poll.close()


def record_crash() -> None:
    """Write the exception being handled to stderr, which is the log file of a daemon or shim."""
    import traceback  # only now: a daemon that does not crash need not hold it

    os.write(2, f"{os.getpid()} {' '.join(sys.argv)}\n{traceback.format_exc()}".encode())
