"""Reconciles the jobs of one kind: observe, decide, execute."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.jobs.engine.constants import LABEL_JOB_NAME, LABEL_OPERATOR_NAME
from trainshed.jobs.engine.generation import Controlled
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of, namespace_of
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.resources import Resource
from trainshed.operator.execution import Executor
from trainshed.operator.metrics import Metrics

GATHER_SECONDS = 0.02
"""Modifications of what a job owns are gathered this long: its pods are bound and start at about the same time, and
each turn that sees another number of them writes the job's status."""


class Reconciler(Controller[Key]):
    """The controller of one kind: watches its jobs and what they own."""

    def __init__(
        self,
        controlled: Controlled,
        client: Client,
        informers: SharedInformers,
        recorder: EventRecorder,
        metrics: Metrics,
        options: OperatorOptions,
        *,
        threads: int = 1,
        now: Callable[[], float] = time.time,
    ) -> None:
        kind = controlled.kind
        super().__init__(
            kind.controller_name,
            informers,
            workers=threads,
            on_result=partial(metrics.count_reconcile, kind.controller_name),
        )
        self._controlled = controlled
        self._client = client
        self._options = options
        self._now = now
        self._jobs = self.watch(informers.of(kind.resource), lambda job: [key_of(job)])
        children = {
            row.resource: self.watch(
                informers.of(row.resource, label_selector=row.watched),
                self._job_of,
                gather_seconds=GATHER_SECONDS,
            )
            for row in controlled.owns
            if row.watched is not None
        }
        self._children = {resource: informer.index(self._group) for resource, informer in children.items()}
        self.executor = Executor(
            client, kind, recorder, metrics, self.own, informers={kind.resource: self._jobs, **children}
        )

    def _job_of(self, child: Object) -> list[Key]:
        """Return the job that a child belongs to: by its labels, or without them by its controller."""
        labels, kind = labels_of(child), self._controlled.kind
        if operator_name := labels.get(LABEL_OPERATOR_NAME):
            name = labels.get(LABEL_JOB_NAME) if operator_name == self.name else None
            return [(namespace_of(child), name)] if name else []
        owner = controller_of(child) or {}
        if (owner.get("apiVersion"), owner.get("kind")) != (kind.api_version, kind.name):
            return []
        return [(namespace_of(child), str(owner["name"]))]

    def _group(self, child: Object) -> list[str]:
        """Return the index entry of the job's children; `/` is in neither part."""
        return ["/".join(key) for key in self._job_of(child)]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one job a step on; return the seconds after which to look again, if any."""
        job = self._jobs.get(*key)
        if job is None:
            return None
        observed = await self._observe(key, job)
        plan = self._controlled.decide(observed)
        try:
            await self.executor.execute(job, plan)
        except ApiError:
            # The next attempt may come later than what has a time, such as the deadline of the job.
            if plan.requeue_after is not None:
                self.queue.add_after(key, plan.requeue_after)
            raise
        return plan.requeue_after

    async def _observe(self, key: Key, job: Object) -> Observed:
        owned = {resource: index.get("/".join(key)) for resource, index in self._children.items()}
        for resource, name in self._controlled.lookups(job):
            found = await self._look_up(resource, name, key[0])
            if found is not None:
                owned.setdefault(resource, []).append(found)
        return Observed(job=job, owned=owned, now=self._now(), options=self._options)

    async def _look_up(self, resource: Resource, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
