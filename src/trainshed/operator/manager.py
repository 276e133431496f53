"""Assembles the operator: shared informers, one controller per kind, events, metrics, and their order of start.

    jobs ─► informer ─────────────────────► queue of its kind ─► reconcile
    children ─► informer ─(labels, or controller)─┘

What is watched follows from what the kinds declare that their jobs own; a resource is mirrored once for all kinds.
Pods and services are restricted to those with the operator-name label.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from trainshed.api.registry import KINDS
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.registry import controlled
from trainshed.operator import customruns
from trainshed.operator.metrics import Metrics
from trainshed.operator.reconciler import Reconciler

log = logging.getLogger(__name__)


class Operator:
    """The controllers of the given kinds over one client. `run` once; `stop` ends it in good order."""

    def __init__(
        self,
        client: Client,
        options: OperatorOptions,
        *,
        kinds: Iterable[str] = tuple(KINDS),
        namespace: str = "",
        threads: int = 1,
        metrics: Metrics | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.metrics.watch_queues(self._queue_depths)
        self._informers = SharedInformers(client, namespace)
        self._recorders: list[EventRecorder] = []
        self.reconcilers: dict[str, Reconciler] = {}
        """By controller name."""
        for name in kinds:
            one = controlled(name, options)
            recorder = EventRecorder(client, one.kind.controller_name, now=now)
            self._recorders.append(recorder)
            self.reconcilers[one.kind.controller_name] = Reconciler(
                one, client, self._informers, recorder, self.metrics, options, threads=threads, now=now
            )
        recorder = EventRecorder(client, customruns.NAME, now=now)
        self._recorders.append(recorder)
        self._custom_runs = customruns.CustomRunController(
            client,
            [KINDS[name] for name in kinds],
            SharedInformers(client, namespace),
            self._informers,
            recorder,
            now=now,
        )

    @property
    def synced(self) -> bool:
        """Whether every informer holds a first list: before that, nothing is reconciled."""
        return self._informers.synced

    async def run(self) -> None:
        """Work until `stop` is called or the task is cancelled."""
        mirrors = asyncio.ensure_future(self._informers.run())
        try:
            # Jobs are listed before any of them is judged, and judged only with all children known.
            await self._informers.wait_synced()
            log.info("caches synced", extra={"controllers": ",".join(self.reconcilers)})
            async with asyncio.TaskGroup() as group:
                for reconciler in self.reconcilers.values():
                    group.create_task(reconciler.run())
                group.create_task(self._custom_runs.run())
        finally:
            mirrors.cancel()
            await asyncio.gather(mirrors, return_exceptions=True)

    def stop(self) -> None:
        """Let running reconciles end; `run` then returns."""
        for reconciler in self.reconcilers.values():
            reconciler.stop()
        self._custom_runs.stop()

    async def close(self, timeout: float = 2.0) -> None:
        """Write the events that wait, for at most `timeout` seconds. The client stays open."""
        await asyncio.gather(*(recorder.close(timeout) for recorder in self._recorders))

    def _queue_depths(self) -> Mapping[str, int]:
        return {name: len(r.queue) for name, r in self.reconcilers.items()}
