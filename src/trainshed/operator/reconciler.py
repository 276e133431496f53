"""Reconciles the jobs of one kind: observe, decide, execute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from trainshed.client.client import Client
from trainshed.client.controllers.expectations import Expectations
from trainshed.client.informer import Index, Informer, Key
from trainshed.jobs.engine.constants import LABEL_JOB_NAME, LABEL_OPERATOR_NAME
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.registry import Controlled
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of, namespace_of, objects, section
from trainshed.kube.meta.resources import Resource
from trainshed.operator.execution import Executor

Owners = Mapping[tuple[str, str], str]
"""Controller names by (apiVersion, kind) of the jobs that they control."""


def job_key(child: Object, owners: Owners) -> tuple[str, str, str]:
    """Return (operator name, namespace, job name) of a child: by its labels, or without them by its controller.

    The texts are empty for an object of nobody that we know.
    """
    labels = labels_of(child)
    if labels.get(LABEL_OPERATOR_NAME):
        return labels[LABEL_OPERATOR_NAME], namespace_of(child), labels.get(LABEL_JOB_NAME, "")
    for owner in objects(section(child, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            by = owners.get((str(owner.get("apiVersion")), str(owner.get("kind"))), "")
            return by, namespace_of(child), str(owner.get("name") or "")
    return "", namespace_of(child), ""


def index_value(operator_name: str, namespace: str, name: str) -> str:
    """Return the index entry of a job's children; `/` is in none of the parts."""
    return f"{operator_name}/{namespace}/{name}"


class Reconciler:
    """One kind's `reconcile(key)`; see `client.controllers.controller` for what its answer means."""

    def __init__(
        self,
        controlled: Controlled,
        client: Client,
        executor: Executor,
        expectations: Expectations,
        options: OperatorOptions,
        *,
        jobs: Informer,
        children: Mapping[Resource, Index],
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controlled = controlled
        self._client = client
        self.executor = executor
        self._expectations = expectations
        self._options = options
        self._jobs = jobs
        self._children = children
        self._now = now
        self._clock = clock

    async def reconcile(self, key: Key) -> float | None:
        """Bring one job a step on; return the seconds after which to look again, if any."""
        job = self._jobs.get(*key)
        if job is None:
            self._expectations.forget(key)
            return None
        waiting = self._expectations.unmet(key, self._clock())
        if waiting is not None:
            return waiting  # the event that ends the wait reconciles; this is only for when it never comes
        observed = await self._observe(key, job)
        plan = self._controlled.decide(observed)
        await self.executor.execute(job, plan)
        return plan.requeue_after

    async def _observe(self, key: Key, job: Object) -> Observed:
        group = index_value(self._controlled.kind.controller_name, *key)
        owned = {resource: index.get(group) for resource, index in self._children.items()}
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
