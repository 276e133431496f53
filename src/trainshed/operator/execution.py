"""Carries out a plan: the only part of the operator that writes to the cluster.

Order: actions, the status, then events and counters (`jobs.engine.plan` has the contract). A process that dies
between any two requests leaves a state from which the next reconcile goes on:

    create again  → AlreadyExists; the object is ours (controller uid), so it counts as created
    delete again  → NotFound, or Conflict on the uid precondition; someone was faster, which is fine
    status again  → Conflict on resourceVersion when the view was old; reconcile again

Before a plan creates pods, the job is read once more past the cache. A process that starts up, or takes
over from another, may hold a job from before it succeeded and pods from after they were cleaned up; without
the check it would run a finished training again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from trainshed.api.kinds import Kind
from trainshed.client.client import Client
from trainshed.client.controllers.expectations import Expectations
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.jobs.engine.plan import (
    Action,
    ApplyHPA,
    CreatePod,
    CreateService,
    DeleteHPA,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    Plan,
)
from trainshed.kube.meta import errors
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, name_of, namespace_of, uid_of
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS, PODS, SERVICES, Resource
from trainshed.operator.metrics import Metrics

log = logging.getLogger(__name__)

FIELD_MANAGER = "training-operator"
MAX_BATCH = 16
"""Requests in flight for one job; pods and services are made together, and deleted together. Batches start at
1 and double, so that a namespace over its quota costs one refused request, not hundreds (as in the Job
controller of Kubernetes)."""


class Executor:
    """Executes plans for jobs of one kind."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        resource: Resource,
        recorder: EventRecorder,
        metrics: Metrics,
        expectations: Expectations,
        *,
        jobs: Informer,
        pods: Informer,
        services: Informer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._kind = kind
        self._resource = resource
        self._recorder = recorder
        self._metrics = metrics
        self._expectations = expectations
        self._jobs = jobs
        self._pods = pods
        self._services = services
        self._clock = clock

    async def execute(self, job: Object, plan: Plan, hpa: Object | None) -> None:
        """Do all of `plan`; ApiError or TransportError at the first thing that fails, which ends it."""
        if any(isinstance(action, CreatePod) for action in plan.actions):
            await self._check_current(job)
        for _, same in groupby(plan.actions, key=_verb):
            for batch in _slow_start(list(same)):
                await self._run(job, batch, hpa)
        if plan.status is not None:
            await self._write_status(job, plan.status)
        self._emit(job, plan.events)
        for word in plan.counters:
            self._metrics.count_job(word, namespace_of(job), self._kind.framework)

    async def _check_current(self, job: Object) -> None:
        """Raise Conflict unless the job still is what the plan was made for."""
        try:
            live = await self._client.get(self._resource, name_of(job), namespace_of(job))
        except ApiError as error:
            if error.code != 404:
                raise
            live = {}
        same = uid_of(live) == uid_of(job) and is_terminating(live) == is_terminating(job)
        if not same or any(live.get(part) != job.get(part) for part in ("spec", "status")):
            raise self._conflict(job, "the job has changed since it was observed")

    async def _run(self, job: Object, batch: Sequence[Action], hpa: Object | None) -> None:
        """Run a batch at once; report each in order; raise the first failure."""
        results = await asyncio.gather(*(self._act(job, a, hpa) for a in batch), return_exceptions=True)
        failure: BaseException | None = None
        for action, result in zip(batch, results, strict=True):
            if isinstance(result, ApiError) and result.reason != "Conflict":
                self._emit(job, action.failed(str(result)))
            elif result is True:
                self._emit(job, action.succeeded())
            if isinstance(result, BaseException):
                failure = failure or result
        if failure is not None:
            raise failure

    async def _act(self, job: Object, action: Action, hpa: Object | None) -> bool:
        """Return whether the world was changed by us just now."""
        match action:
            case CreatePod(pod=pod):
                return await self._create(job, PODS, self._pods, pod)
            case CreateService(service=service):
                return await self._create(job, SERVICES, self._services, service)
            case DeletePod():
                return await self._delete(job, PODS, action, self._pods)
            case DeleteService():
                return await self._delete(job, SERVICES, action, self._services)
            case ApplyHPA(hpa=wanted):
                return await self._apply_hpa(job, wanted, hpa)
            case DeleteHPA():
                return await self._delete(job, HORIZONTALPODAUTOSCALERS, action, None)
            case DeleteJob():
                done = await self._delete(job, self._resource, action, self._jobs)
                if done:
                    self._metrics.count_job("deleted", namespace_of(job), self._kind.framework)
                return done
        raise TypeError(f"unknown action {type(action).__name__}")

    async def _create(self, job: Object, resource: Resource, informer: Informer, obj: Object) -> bool:
        key = namespace_of(job), name_of(job)
        try:
            created = await self._client.create(resource, obj, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            self._expectations.wrote(key, informer, created, self._clock())
            return True
        try:
            found = await self._client.get(resource, name_of(obj), namespace_of(obj))
        except ApiError as error:
            if error.code != 404:
                raise
            raise self._conflict(obj, "it was deleted while it was being created") from error
        if controller_uid(found) != uid_of(job):
            # The message users know from the operator's MPI kind, where upstream checks this too.
            raise ApiError(
                409,
                "AlreadyExists",
                f'{resource.group_resource} "{name_of(obj)}" already exists and is not controlled by '
                f'{self._kind.name} "{name_of(job)}"',
            )
        if is_terminating(found):
            raise self._conflict(obj, "its predecessor is still terminating")
        self._expectations.wrote(key, informer, found, self._clock())
        return False

    async def _delete(
        self,
        job: Object,
        resource: Resource,
        target: DeletePod | DeleteService | DeleteHPA | DeleteJob,
        informer: Informer | None,
    ) -> bool:
        try:
            await self._client.delete(resource, target.name, target.namespace, uid=target.uid)
            changed = True
        except ApiError as error:
            # Conflict: the uid precondition; the object we saw is gone and another has its name.
            if error.code != 404 and error.reason != "Conflict":
                raise
            changed = False
        if informer is not None:
            key = namespace_of(job), name_of(job)
            self._expectations.deleting(
                key, informer, target.namespace, target.name, target.uid, self._clock()
            )
        return changed

    async def _apply_hpa(self, job: Object, wanted: Object, existing: Object | None) -> bool:
        if existing is not None and controller_uid(existing) != uid_of(job):
            message = (
                f'horizontalpodautoscaler "{name_of(wanted)}" already exists and is not controlled by the job'
            )
            self._recorder.event(job, "Warning", "ErrResourceExists", message)
            raise ApiError(409, "AlreadyExists", message)
        await self._client.apply(HORIZONTALPODAUTOSCALERS, wanted, field_manager=FIELD_MANAGER)
        return True

    async def _write_status(self, job: Object, status: Object) -> None:
        try:
            written = await self._client.update(
                self._resource, {**job, "status": status}, subresource="status", field_manager=FIELD_MANAGER
            )
        except ApiError as error:
            if error.code == 404:
                return  # deleted meanwhile: there is nothing to report on
            raise
        self._expectations.wrote((namespace_of(job), name_of(job)), self._jobs, written, self._clock())

    def _emit(self, job: Object, events: Iterable[Event]) -> None:
        for event in events:
            self._recorder.event(job, event.type, event.reason, event.message)

    def _conflict(self, obj: Object, why: str) -> ApiError:
        kind = str(obj.get("kind") or self._kind.name)
        return errors.conflict(kind.lower() + "s", "", name_of(obj), why)


def _verb(action: Action) -> object:
    """Return what neighbours that may run together have in common."""
    match action:
        case CreatePod() | CreateService():
            return "create"
        case DeletePod() | DeleteService():
            return "delete"
    return type(action)


def _slow_start(actions: list[Action]) -> Iterator[list[Action]]:
    """Yield batches of 1, 2, 4 … MAX_BATCH actions."""
    size = 1
    while actions:
        batch, actions = actions[:size], actions[size:]
        yield batch
        size = min(size * 2, MAX_BATCH)
