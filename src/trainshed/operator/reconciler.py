"""Reconciles the jobs of one kind: observe, decide, execute."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.api.kinds import Kind
from trainshed.client.client import Client
from trainshed.client.controllers.expectations import Expectations
from trainshed.client.informer import Index, Informer, Key
from trainshed.jobs.engine.constants import LABEL_JOB_NAME, LABEL_OPERATOR_NAME
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of, namespace_of, section
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS
from trainshed.operator.execution import Executor


def job_key(child: Object) -> tuple[str, str, str]:
    """Return (operator name, namespace, job name) of a pod or service, from its labels."""
    labels = labels_of(child)
    return labels.get(LABEL_OPERATOR_NAME, ""), namespace_of(child), labels.get(LABEL_JOB_NAME, "")


def index_value(operator_name: str, namespace: str, name: str) -> str:
    """Return the index entry of a job's children; `/` is in none of the parts."""
    return f"{operator_name}/{namespace}/{name}"


class Reconciler:
    """One kind's `reconcile(key)`; see `client.controllers.controller` for what its answer means."""

    def __init__(
        self,
        kind: Kind,
        client: Client,
        executor: Executor,
        expectations: Expectations,
        options: OperatorOptions,
        *,
        jobs: Informer,
        pods: Index,
        services: Index,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kind = kind
        self._client = client
        self.executor = executor
        self._expectations = expectations
        self._options = options
        self._jobs = jobs
        self._pods = pods
        self._services = services
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
        plan = decide(observed)
        await self.executor.execute(job, plan, observed.hpa)
        return plan.requeue_after

    async def _observe(self, key: Key, job: Object) -> Observed:
        children = index_value(self._kind.controller_name, *key)
        return Observed(
            job=job,
            pods=self._pods.get(children),
            services=self._services.get(children),
            hpa=await self._observe_hpa(key, job),
            now=self._now(),
            options=self._options,
        )

    async def _observe_hpa(self, key: Key, job: Object) -> Object | None:
        """Only an elastic job has one, so it is asked for instead of watched."""
        if not section(job, "spec", "elasticPolicy"):
            return None
        try:
            return await self._client.get(HORIZONTALPODAUTOSCALERS, key[1], key[0])
        except ApiError as error:
            if error.code == 404:
                return None
            raise
