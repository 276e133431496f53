"""The base of all controllers: from watched objects to keys, and the loop around `reconcile`.

reconcile returns None      done until something changes
reconcile returns seconds   look again then
reconcile raises            logged; look again with growing delay. One failed key never stops the rest.

A reconcile starts only when the mirrors show what the one before it wrote (see `ownwrites`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.controllers.ownwrites import OwnWrites
from trainshed.client.controllers.workqueue import QueueClosed, WorkQueue
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

UNAVAILABLE_SECONDS = 1.0


class Controller(ABC, Generic[K]):
    """Runs `reconcile` for queued keys with `workers` concurrent tasks, never two for one key.

    A controller gives its name and its watches to the base and implements `reconcile`. `run` is all that its
    process calls, once, and `stop` where it ends in good order.
    """

    def __init__(
        self,
        name: str,
        informers: SharedInformers | None = None,
        *,
        workers: int = 1,
        gather_seconds: float = 0.0,
        on_result: Callable[[str, float], None] | None = None,
    ) -> None:
        """Args:
        informers: of the process; None for one that is fed by other means than watches.
        gather_seconds: how long changes of a key are gathered before it is reconciled.
        on_result: told "success", "requeue_after", "conflict", "unavailable" or "error" and the seconds that
            the reconcile took: the labels of a metric.
        """
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue()
        self.own: OwnWrites[K] = OwnWrites()
        self._informers = informers
        self._workers = workers
        self._gather_seconds = gather_seconds
        self._on_result = on_result

    @abstractmethod
    async def reconcile(self, key: K) -> float | None:
        """Bring one key a step on; see the module for what the answer means."""

    def watch(
        self,
        informer: Informer,
        keys: Callable[[Object], Iterable[K]],
        *,
        regards: Callable[[Object], object] | None = None,
        gather_seconds: float = 0.0,
    ) -> Informer:
        """Reconcile `keys(object)` at each change, those of the state before as well; return the informer.

        With `regards`, a modification that leaves its answer the same is passed over. Modifications are gathered for
        `gather_seconds` where that is longer than the controller's own time.
        """

        def changed(change: str, old: Object | None, new: Object) -> None:
            if (
                regards is not None
                and change == "MODIFIED"
                and old is not None
                and regards(old) == regards(new)
            ):
                return
            gathered = change == "MODIFIED" and gather_seconds > self._gather_seconds
            for state in (old, new):
                if state is not None:
                    for key in keys(state):
                        if gathered:
                            self.queue.add_after(key, gather_seconds)
                        else:
                            self.enqueue(key)

        informer.add_handler(changed)
        return informer

    def enqueue(self, key: K) -> None:
        """Ask for a reconcile of `key` soon."""
        self.queue.add_after(key, self._gather_seconds)

    async def wait_synced(self) -> None:
        """Return when every shared mirror holds a first list: before that, absence means nothing."""
        if self._informers is not None:
            await self._informers.wait_synced()

    async def run(self) -> None:
        """Reconcile until cancelled or stopped."""
        await self.wait_synced()
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
            requeue_after = self.own.wait(key)
            if requeue_after is None:
                requeue_after = await self.reconcile(key)
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


class Worker(Controller[K]):
    """A controller of one function: for keys that another controller hands on, so that they do not hold up its own."""

    def __init__(
        self, name: str, reconcile: Callable[[K], Awaitable[float | None]], *, workers: int = 1
    ) -> None:
        super().__init__(name, workers=workers)
        self._reconcile = reconcile

    async def reconcile(self, key: K) -> float | None:
        """Call the function."""
        return await self._reconcile(key)
