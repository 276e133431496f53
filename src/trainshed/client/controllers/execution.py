"""Carries out plans whose status says what was observed.

Order: the status, its events, then the actions. The status of such a plan is true whatever becomes of the actions, so a
refused pod does not hold it up; and what it remembers (a counted pod, a condition) is safe before anything is deleted.
A process that dies in between leaves a state from which the next reconcile plans the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import Generic, TypeVar

from trainshed.client.client import Client
from trainshed.client.controllers.batches import all_of, slow_start
from trainshed.client.controllers.ownwrites import OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, name_of, namespace_of, uid_of
from trainshed.kube.meta.plan import Action, Adopt, Create, Delete, Event, Patch, Plan

K = TypeVar("K", bound=Hashable)


async def delete(client: Client, target: Delete) -> bool:
    """Delete what was seen; return whether that changed anything: it may be gone, or another has its name.

    Raises:
        ApiError: the refusal. A conflict that is not about the uid is one: no event would come for what stays.
        TransportError: the API cannot be reached.
    """
    where = (target.resource, target.name, target.namespace)
    try:
        await client.delete(*where, propagation_policy=target.propagation, uid=target.uid)
    except ApiError as error:
        if error.code != 404 and (error.reason != "Conflict" or await _is_there(client, target)):
            raise
        return False
    return True


async def _is_there(client: Client, target: Delete) -> bool:
    """Return whether the very object is there, and not on its way out."""
    try:
        found = await client.get(target.resource, target.name, target.namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return uid_of(found) == target.uid and not is_terminating(found)


class Executor(Generic[K]):
    """Executes the plans of one controller and notes its writes in `own`.

    `owners` mirrors what the plans are about, `others` the resources that their actions write.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        own: OwnWrites[K],
        owners: Informer,
        others: Iterable[Informer],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._own = own
        self._owners = owners
        self._informers = {informer.resource: informer for informer in (owners, *others)}

    async def execute(self, key: K, owner: Object, plan: Plan) -> None:
        """Do all of `plan`.

        An owner, or the object of a patch or deletion, that is gone meanwhile is no error.

        Raises:
            ApiError: the first refusal, after those that ran beside it.
            TransportError: the API cannot be reached.
        """
        if plan.status is not None and plan.status != owner.get("status"):
            body = {**owner, "status": plan.status}
            try:
                written = await self._client.update(self._owners.resource, body, subresource="status")
            except ApiError as error:
                if error.code != 404:
                    raise
                return
            self._own.wrote(key, self._owners, written)
        self._tell(owner, plan.events)
        await self.act(key, owner, plan.actions)

    async def act(self, key: K, owner: Object, actions: Iterable[Action]) -> None:
        """Do `actions` in order; neighbours of one sort go together."""
        for sort, group in groupby(actions, key=type):
            same = list(group)
            if sort is Create:
                await self._create(key, owner, same)
                continue
            if sort is Adopt and not await self._stays(owner):
                return

            async def write(action: Action) -> None:
                await self._write(key, owner, action)

            for failure in await all_of(same, write):
                raise failure

    async def _create(self, key: K, owner: Object, actions: Sequence[Action]) -> None:
        async def create(action: Action) -> None:
            assert isinstance(action, Create)
            created = await self._client.create(action.resource, action.object)
            self._own.wrote(key, self._informers[action.resource], created)
            self._tell(owner, action.succeeded(name_of(created)))

        try:
            await slow_start(actions, create)
        except ApiError as error:
            if error.code == 404:
                return  # the namespace is gone, and the owner with it
            self._tell(owner, actions[0].failed(str(error)))
            raise

    async def _write(self, key: K, owner: Object, action: Action) -> None:
        resource, informer = action.resource, self._informers[action.resource]
        try:
            match action:
                case Patch(object=seen, patch=patch, subresource=part):
                    name, namespace = name_of(seen), namespace_of(seen)
                    changed = await self._client.patch(resource, name, namespace, patch, subresource=part)
                    self._own.wrote(key, informer, changed)
                case Delete(name=name, namespace=namespace, uid=uid):
                    found = await delete(self._client, action)
                    self._own.deleting(key, informer, namespace, name, uid)
                    if not found:
                        return
                case _:
                    raise TypeError(f"unknown action {type(action).__name__}")
        except ApiError as error:
            if error.code == 404:
                return
            raise
        self._tell(owner, action.succeeded(name))

    async def _stays(self, owner: Object) -> bool:
        """Return whether the owner is there to stay: the mirror may not show yet that it goes and leaves orphans."""
        try:
            live = await self._client.get(self._owners.resource, name_of(owner), namespace_of(owner))
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return uid_of(live) == uid_of(owner) and not is_terminating(live)

    def _tell(self, owner: Object, events: Iterable[Event]) -> None:
        for event in events:
            self._recorder.event(owner, event.type, event.reason, event.message)
