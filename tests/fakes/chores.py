"""Requests that go on beside a test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from trainshed.kube.meta.errors import ApiError


class Chores:
    """Requests of a model. That an object is gone, or was changed meanwhile, is no fault of theirs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let a request go on."""

        async def quietly() -> None:
            try:
                await work
            except ApiError as error:
                assert error.code in (404, 409), error

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel those that go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
