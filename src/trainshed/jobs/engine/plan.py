"""What `decide` answers: actions in order, the status to write, and what to say once that is done.

How to execute a plan
    1. Run `actions` in order; neighbours that create may run together, and neighbours that delete. After each, emit
       `action.succeeded()`; on an error emit `action.failed(error)` and stop: the status then describes a world that
       does not exist, so it is not written.
    2. If `status` is not None, write it with one update of the status subresource.
    3. Only when that write landed (or none was needed): emit `events`, count `counters`.
    4. Reconcile again after `requeue_after` seconds, or when the job or a child changes.

Answers that are no errors
    Create → AlreadyExists, and the object there has our controller uid and is not terminating: the view was
    stale. Any other AlreadyExists (a leftover of an older job of the same name) is an error: retry later.
    Delete → NotFound, or Conflict because the uid differs: someone was faster.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object, name_of, namespace_of, uid_of
from trainshed.kube.meta.resources import Resource

EventType: TypeAlias = Literal["Normal", "Warning"]

Counter: TypeAlias = Literal["created", "deleted", "successful", "failed", "restarted"]
"""Which `training_operator_jobs_<counter>_total` goes up by one."""


class Event(msgspec.Struct, frozen=True):
    """One Kubernetes Event on the job."""

    type: EventType
    reason: str
    message: str


class Told(msgspec.Struct, frozen=True):
    """The events of one action: those of success, and the one of failure, whose message the error's text ends."""

    done: tuple[Event, ...] = ()
    failed: Event | None = None


QUIET = Told()


class Tells(msgspec.Struct, frozen=True):
    """How the making and deleting of one sort of object is told: the last word of the reason, and its noun."""

    reason: str
    noun: str

    def created(self, name: str) -> Told:
        """Return the events of a creation, e.g. `SuccessfulCreatePod: Created pod: train-worker-0`."""
        return self._told("Create", f"Created {self.noun}: {name}", "Error creating: ")

    def deleted(self, name: str) -> Told:
        """Return the events of a deletion."""
        return self._told("Delete", f"Deleted {self.noun}: {name}", "Error deleting: ")

    def _told(self, verb: str, done: str, failed: str) -> Told:
        return Told(
            (Event("Normal", f"Successful{verb}{self.reason}", done),),
            Event("Warning", f"Failed{verb}{self.reason}", failed),
        )


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one object of `resource`. `counter` goes up by one when it happened."""

    resource: Resource
    told: Told = QUIET
    counter: Counter | None = None

    def succeeded(self) -> tuple[Event, ...]:
        """Return the events that tell of the change."""
        return self.told.done

    def failed(self, error: str) -> tuple[Event, ...]:
        """Return the events that tell why the change did not happen."""
        event = self.told.failed
        return () if event is None else (Event(event.type, event.reason, event.message + error),)


class Create(Action, frozen=True, kw_only=True):
    """Create `object`."""

    object: Object


class Apply(Action, frozen=True, kw_only=True):
    """Bring the object to this state, creating it if need be: a forced server-side apply."""

    object: Object


class Update(Action, frozen=True, kw_only=True):
    """Replace the object that was seen: `object` carries its resourceVersion."""

    object: Object


class Delete(Action, frozen=True, kw_only=True):
    """Delete the object that was seen: `uid` is a precondition, so that its successor is never hit."""

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, resource: Resource, seen: Object, tells: Tells | None = None) -> Delete:
        """Return the deletion of an observed object."""
        name = name_of(seen)
        told = QUIET if tells is None else tells.deleted(name)
        return cls(resource=resource, name=name, namespace=namespace_of(seen), uid=uid_of(seen), told=told)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one observation.

    `status` is the whole status object to write, or None when the stored one is right.
    `requeue_after` is in seconds from `Observed.now`, at least 0, or None when no timer is needed.
    """

    actions: tuple[Action, ...] = ()
    status: Object | None = None
    events: tuple[Event, ...] = ()
    counters: tuple[Counter, ...] = ()
    requeue_after: float | None = None
