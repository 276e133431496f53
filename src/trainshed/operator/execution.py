"""Carries out a plan: the only part of the operator that writes to the cluster.

Order: actions, the status, then events and counters (`jobs.engine.plan` has the contract). A status beside refused
creations is written all the same: it says what was observed. A process that dies between any two requests leaves a
state from which the next reconcile goes on:

    create again  → AlreadyExists; the object is ours (controller uid), so it counts as created
    delete again  → NotFound, or Conflict as another object has the name; someone was faster, which is fine
    status again  → Conflict on resourceVersion when the view was old; reconcile again

Before a plan creates or applies anything, the job is read once more past the cache. A process that starts up, or takes
over from another, may hold a job from before it succeeded and pods from after they were cleaned up; without
the check it would run a finished training again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby

from trainshed.api.kind import Kind
from trainshed.client.client import Client
from trainshed.client.controllers.batches import slow_start
from trainshed.client.controllers.execution import delete
from trainshed.client.controllers.ownwrites import OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer, Key, key_of
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta import errors
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import (
    Object,
    controller_uid,
    is_terminating,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)
from trainshed.kube.meta.plan import Action, Apply, Create, Delete, Event, Update
from trainshed.kube.meta.resources import Resource
from trainshed.operator.metrics import Metrics

log = logging.getLogger(__name__)

FIELD_MANAGER = "training-operator"


class Executor:
    """Executes plans for jobs of one kind. `informers` mirror the jobs and what is watched of their children."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        recorder: EventRecorder,
        metrics: Metrics,
        own: OwnWrites[Key],
        *,
        informers: Mapping[Resource, Informer],
    ) -> None:
        self._client = client
        self._kind = kind
        self._resource = kind.resource
        self._recorder = recorder
        self._metrics = metrics
        self._own = own
        self._informers = informers

    async def execute(self, job: Object, plan: Plan) -> None:
        """Do all of `plan`; ApiError or TransportError at the first thing that fails, which ends its actions."""
        if any(isinstance(action, Create | Apply) for action in plan.actions):
            await self._check_current(job)
        act, tell = partial(self._act, job), partial(self._tell, job)
        refused: ApiError | None = None
        for _, numbered in groupby(enumerate(plan.actions), key=_together):
            same = [action for _, action in numbered]
            try:
                await slow_start(same, act, tell)
            except ApiError as error:
                if error.reason == "Conflict" or not isinstance(same[0], Create | Apply):
                    raise
                refused = error
                break
        await self._conclude(job, plan)
        if refused is not None and not _goes_with_its_namespace(refused):
            raise refused

    async def _conclude(self, job: Object, plan: Plan) -> None:
        """Write the status; then say and count what it says."""
        if plan.status is not None and await self._write_status(job, plan.status):
            self._metrics.count_failed_pods(status_of(job), plan.status)
        self._emit(job, plan.events)
        for word in plan.counters:
            self._count(job, word)

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

    def _tell(self, job: Object, action: Action, outcome: bool | BaseException) -> None:
        """Report what became of an action. No news: a conflict, as the view was old, and the end of a namespace."""
        if isinstance(outcome, ApiError):
            if outcome.reason == "Conflict" or _goes_with_its_namespace(outcome):
                return
            self._emit(job, action.failed(str(outcome)))
            self._metrics.count_action(action, done=False)
        elif outcome is True:
            self._emit(job, action.succeeded())
            self._metrics.count_action(action, done=True)
            if action.counter is not None:
                self._count(job, action.counter)

    async def _act(self, job: Object, action: Action) -> bool:
        """Return whether the world was changed by us just now."""
        match action:
            case Create(resource=resource, object=obj):
                return await self._create(job, resource, obj)
            case Apply(resource=resource, object=obj):
                written = await self._client.apply(resource, obj, field_manager=FIELD_MANAGER)
                self._wrote(job, resource, written)
                return True
            case Update(resource=resource, object=obj):
                written = await self._client.update(resource, obj, field_manager=FIELD_MANAGER)
                self._wrote(job, resource, written)
                return True
            case Delete():
                return await self._delete(job, action)
        raise TypeError(f"unknown action {type(action).__name__}")

    async def _create(self, job: Object, resource: Resource, obj: Object) -> bool:
        try:
            created = await self._client.create(resource, obj, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            self._wrote(job, resource, created)
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
        self._wrote(job, resource, found)
        return False

    async def _delete(self, job: Object, target: Delete) -> bool:
        changed = await delete(self._client, target)
        informer = self._informers.get(target.resource)
        if informer is not None:
            self._own.deleting(key_of(job), informer, target.namespace, target.name, target.uid)
        return changed

    def _wrote(self, job: Object, resource: Resource, written: Object) -> None:
        """Have the job wait until the mirror of a watched resource shows what was written."""
        informer = self._informers.get(resource)
        if informer is not None:
            self._own.wrote(key_of(job), informer, written)

    async def _write_status(self, job: Object, status: Object) -> bool:
        """Return whether there still was a job to write it of."""
        try:
            written = await self._client.update(
                self._resource, {**job, "status": status}, subresource="status", field_manager=FIELD_MANAGER
            )
        except ApiError as error:
            if error.code == 404:
                return False  # deleted meanwhile: there is nothing to report on
            raise
        self._wrote(job, self._resource, written)
        return True

    def _count(self, job: Object, word: str) -> None:
        self._metrics.count_job(word, namespace_of(job), self._kind.framework)

    def _emit(self, job: Object, events: Iterable[Event]) -> None:
        for event in events:
            self._recorder.event(job, event.type, event.reason, event.message)

    def _conflict(self, obj: Object, why: str) -> ApiError:
        kind = str(obj.get("kind") or self._kind.name)
        return errors.conflict(kind.lower() + "s", "", name_of(obj), why)


def _goes_with_its_namespace(error: ApiError) -> bool:
    """Return whether nothing can be made since the namespace is being deleted, and the job with it: no use to retry."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def _together(numbered: tuple[int, Action]) -> object:
    """Return what neighbours that may run together have in common: what is applied or updated is on its own."""
    number, action = numbered
    return type(action) if isinstance(action, Create | Delete) else number
