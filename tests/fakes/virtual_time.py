"""An event loop whose clock jumps to the next timer: an hour of backoff takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Advances `time()` only when nothing is ready to run."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 1000.0

    def time(self) -> float:
        return self._virtual_now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            due = self._scheduled[0]._when  # type: ignore[attr-defined]
            self._virtual_now = max(self._virtual_now, due)
        super()._run_once()  # type: ignore[misc]


def run_virtual(main: Coroutine[Any, Any, T], deadline: float = 100_000.0) -> T:
    """Run `main` to its end in virtual time; TimeoutError after `deadline` virtual seconds."""

    async def bounded() -> T:
        async with asyncio.timeout(deadline):
            return await main

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(bounded())
