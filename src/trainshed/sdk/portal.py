"""Runs asynchronous code for callers that are not: one event loop in a thread of its own, for the whole process.

The caller may be inside a running event loop itself (Jupyter), which is why the loop is in another thread. The
caller's thread waits, so what is iterated is handed over one item at a time and callbacks run where the caller is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

_CANCEL_SECONDS = 5.0
"""How long a coroutine whose caller was interrupted may take to end."""

_LOOK_SECONDS = 0.5
"""How late an interrupt is seen that arrives just before the thread blocks: Python then raises it at its next step."""


class Portal:
    """The loop and its thread, which ends with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="trainshed", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns, or raise what it raises. An interrupted wait cancels it."""
        done: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda task: _hand_over(task, done))

        try:
            self._loop.call_soon_threadsafe(start)
            while not done.done():
                wait([done], _LOOK_SECONDS)
            return done.result()
        except BaseException:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            wait([done], _CANCEL_SECONDS)  # whoever called may go on with what the coroutine used
            raise

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that cleans up, waiting a little for it; for finalizers, which run in any thread.

        A collection may happen in the loop's own thread, which cannot wait for itself.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        if threading.current_thread() is not self._thread:
            wait([future], _CANCEL_SECONDS)

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield the generator's items; it is closed at the end, and when the caller stops early."""
        end = object()

        async def step() -> Any:
            return await anext(items, end)

        try:
            while (item := self.call(step())) is not end:
                yield item
        finally:
            self.call(items.aclose())


def _hand_over(task: asyncio.Task[T], done: Future[T]) -> None:
    if task.cancelled():
        done.set_exception(CancelledError())
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


_lock = threading.RLock()  # a collection may run a finalizer within
_portal: Portal | None = None


def portal() -> Portal:
    """Return the process's portal, started at first use."""
    global _portal
    with _lock:
        if _portal is None:
            _portal = Portal()
        return _portal
