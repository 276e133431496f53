"""Assembles the operator: informers, one controller per kind, events, metrics, and their order of start.

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

from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS
from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.expectations import Expectations
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer, Key
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.registry import Controlled, controlled
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource
from trainshed.operator.execution import Executor
from trainshed.operator.metrics import Labels, Metrics
from trainshed.operator.reconciler import Reconciler, index_value, job_key

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
        now: Callable[[], float] = time.time,
    ) -> None:
        self.metrics = Metrics()
        self.metrics.declare(
            "controller_runtime_reconcile_total", "counter", "Total number of reconciliations per controller"
        )
        self.metrics.declare(
            "controller_runtime_reconcile_time_seconds_sum", "counter", "Seconds spent in reconciliations"
        )
        self.metrics.gauge("workqueue_depth", "Current depth of workqueue", self._queue_depths)
        scope = namespace or None
        self._controllers: dict[str, Controller[Key]] = {}
        self._recorders: list[EventRecorder] = []
        self.reconcilers: dict[str, Reconciler] = {}
        """By controller name."""
        under = [controlled(name, options) for name in kinds]
        self._owners = {(c.kind.api_version, c.kind.name): c.kind.controller_name for c in under}
        children = _watches(client, under, scope)
        indexes = {resource: informer.index(self._index) for resource, informer in children.items()}
        self._informers = list(children.values())
        for one in under:
            kind = one.kind
            jobs = Informer(client, kind.resource, namespace=scope)
            recorder = EventRecorder(client, kind.controller_name, now=now)
            expectations = Expectations()
            watched = [row.resource for row in one.owns if row.watched is not None]
            executor = Executor(
                client,
                kind,
                recorder,
                self.metrics,
                expectations,
                informers={kind.resource: jobs, **{resource: children[resource] for resource in watched}},
            )
            reconciler = Reconciler(
                one,
                client,
                executor,
                expectations,
                options,
                jobs=jobs,
                children={resource: indexes[resource] for resource in watched},
                now=now,
            )
            self.reconcilers[kind.controller_name] = reconciler
            controller = Controller(
                kind.controller_name, reconciler.reconcile, threads, on_result=self._result_counter(kind)
            )
            jobs.add_handler(_enqueue_job(controller))
            self._informers.append(jobs)
            self._recorders.append(recorder)
            self._controllers[kind.controller_name] = controller
        for informer in children.values():
            informer.add_handler(self._enqueue_owner)

    @property
    def synced(self) -> bool:
        """Whether every informer holds a first list: before that, nothing is reconciled."""
        return all(informer.synced for informer in self._informers)

    async def run(self) -> None:
        """Work until `stop` is called or the task is cancelled."""
        mirrors = [asyncio.ensure_future(informer.run()) for informer in self._informers]
        try:
            # Jobs are listed before any of them is judged, and judged only with all children known.
            await asyncio.gather(*(informer.wait_synced() for informer in self._informers))
            log.info("caches synced", extra={"controllers": ",".join(self._controllers)})
            async with asyncio.TaskGroup() as group:
                for controller in self._controllers.values():
                    group.create_task(controller.run())
        finally:
            for mirror in mirrors:
                mirror.cancel()
            await asyncio.gather(*mirrors, return_exceptions=True)

    def stop(self) -> None:
        """Let running reconciles end; `run` then returns."""
        for controller in self._controllers.values():
            controller.stop()

    async def close(self, timeout: float = 2.0) -> None:
        """Write the events that wait, for at most `timeout` seconds. The client stays open."""
        await asyncio.gather(*(recorder.close(timeout) for recorder in self._recorders))

    def _enqueue_owner(self, kind: str, old: Object | None, new: Object) -> None:
        """A child changed: reconcile the job that it belongs to, before and after."""
        for child in (old, new):
            if child is not None:
                operator_name, namespace, name = job_key(child, self._owners)
                if (controller := self._controllers.get(operator_name)) is not None and name:
                    controller.enqueue((namespace, name))

    def _index(self, child: Object) -> list[str]:
        return [index_value(*job_key(child, self._owners))]

    def _result_counter(self, kind: Kind) -> Callable[[str, float], None]:
        def count(result: str, seconds: float) -> None:
            name = kind.controller_name
            self.metrics.count("controller_runtime_reconcile_total", controller=name, result=result)
            self.metrics.count("controller_runtime_reconcile_time_seconds_sum", seconds, controller=name)

        return count

    def _queue_depths(self) -> Mapping[Labels, float]:
        return {(("name", name),): len(c.queue) for name, c in self._controllers.items()}


def _watches(client: Client, under: Iterable[Controlled], namespace: str | None) -> dict[Resource, Informer]:
    """Return one informer for each resource that is watched; ValueError when two kinds select differently."""
    selectors: dict[Resource, str] = {}
    for row in (row for one in under for row in one.owns):
        if row.watched is not None and selectors.setdefault(row.resource, row.watched) != row.watched:
            raise ValueError(f"{row.resource.group_resource}: watched with different selectors")
    return {
        resource: Informer(client, resource, namespace=namespace, label_selector=selector)
        for resource, selector in selectors.items()
    }


def _enqueue_job(controller: Controller[Key]) -> Callable[[str, Object | None, Object], None]:
    def handle(kind: str, old: Object | None, new: Object) -> None:
        controller.enqueue((new["metadata"].get("namespace") or "", new["metadata"]["name"]))

    return handle
