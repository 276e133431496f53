"""`python -m tests.hostile.server HOME`: the server of `tests/e2e/api_process.py`, which tells what stalls its loop.

A stall is CPU time of the process between two turns of a task that wants one every few milliseconds: other processes on
the machine do not count, code of ours that keeps everybody waiting does, in another thread, too. Each that is longer
than those before goes to stderr as `PAUSE <seconds> <where>`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType

from tests.e2e import api_process
from trainshed.cluster.control.controlplane import SWITCH_SECONDS

EVERY_SECONDS = 0.005
NAMED_FROM_SECONDS = 0.05
_IDLE = ("wait", "select", "_worker", "get", "_run", "_look", "_busy")


class Pauses:
    """Watches the running loop."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._turn = 0.0
        self._where: dict[float, str] = {}
        self.longest = 0.0

    async def run(self) -> None:
        """Take turns for ever."""
        threading.Thread(target=self._look, name="pauses", daemon=True).start()
        while True:
            self._turn = before = time.process_time()
            await asyncio.sleep(EVERY_SECONDS)
            took = time.process_time() - before
            if took > self.longest and took > NAMED_FROM_SECONDS:
                self.longest = took
                print(f"PAUSE {took:.3f} {self._where.get(before, 'unseen')}", file=sys.stderr, flush=True)

    def _look(self) -> None:
        """Note where the loop's thread is once a turn has taken long; the last look at a turn counts."""
        while True:
            time.sleep(0.02)
            turn = self._turn
            if time.process_time() - turn > NAMED_FROM_SECONDS / 2:
                self._where = {turn: " | ".join(filter(None, map(_busy, sys._current_frames().values())))}


def _busy(frame: FrameType) -> str:
    """Return where a thread is, empty when it waits or is the one that looks."""
    stack = traceback.extract_stack(frame)
    if stack[-1].name in _IDLE:
        return ""
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(stack[-5:]))


async def main(home: Path) -> None:
    """Serve until SIGTERM."""
    sys.setswitchinterval(SWITCH_SECONDS)
    watching = asyncio.create_task(Pauses().run())
    try:
        await api_process.main(home)
    finally:
        watching.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
