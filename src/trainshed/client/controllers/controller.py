"""The loop around a reconciler: pop a key, reconcile it, decide when to look again.

reconcile returns None      done until something changes
reconcile returns seconds   look again then
reconcile raises            logged; look again with growing delay. One failed key never stops the rest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from trainshed.client.controllers.workqueue import QueueClosed, WorkQueue
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

UNAVAILABLE_SECONDS = 1.0


class Controller(Generic[K]):
    """Runs `reconcile` for queued keys with `workers` concurrent tasks, never two for one key.

    `on_result` is told "success", "requeue_after", "conflict", "unavailable" or "error" and the seconds that
    the reconcile took: the labels of a metric.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        workers: int = 1,
        *,
        queue: WorkQueue[K] | None = None,
        on_result: Callable[[str, float], None] | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = queue if queue is not None else WorkQueue()
        self._reconcile = reconcile
        self._workers = workers
        self._on_result = on_result

    def enqueue(self, key: K) -> None:
        """Ask for a reconcile of `key` soon."""
        self.queue.add(key)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Ask for a reconcile of `key` in `seconds`."""
        self.queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until cancelled or stopped."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    def stop(self) -> None:
        """Let each worker finish the key in its hands; `run` then returns."""
        self.queue.shut_down()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._one(key)
            finally:
                self.queue.done(key)
            # A reconcile that never has to wait gives nobody else a turn, and neither does a queue that is not empty.
            await asyncio.sleep(0)

    async def _one(self, key: K) -> None:
        started = time.perf_counter()
        try:
            requeue_after = await self._reconcile(key)
        except ApiError as error:
            delay = self.queue.add_rate_limited(key)
            # A conflict means that the cache was old: normal, and the newer state is on its way.
            result = "conflict" if error.reason == "Conflict" else "error"
            level = logging.DEBUG if error.reason == "Conflict" else logging.WARNING
            log.log(level, "reconcile refused", extra=self._about(key, error=str(error), retry_in=delay))
        except TransportError as error:
            # Not this key's fault: no growing backoff, so that all keys go on soon after the API is back.
            delay = UNAVAILABLE_SECONDS
            self.queue.add_after(key, delay)
            result = "unavailable"
            log.info("API unavailable", extra=self._about(key, error=str(error), retry_in=delay))
        except Exception:
            delay = self.queue.add_rate_limited(key)
            result = "error"
            log.exception("reconcile failed", extra=self._about(key, retry_in=delay))
        else:
            self.queue.forget(key)
            result = "success"
            if requeue_after is not None:
                result = "requeue_after"
                self.queue.add_after(key, requeue_after)
        if self._on_result is not None:
            self._on_result(result, time.perf_counter() - started)

    def _about(self, key: K, **more: object) -> dict[str, object]:
        return {"controller": self.name, "key": key, **more}
