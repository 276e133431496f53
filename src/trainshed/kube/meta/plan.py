"""What a decision answers, in every controller. Values only.

    Observed ──decide (pure)──► Plan: actions, status, events, requeue_after ──execute──► the API

`Observed` is frozen data, the time among it, and each controller's own; `Plan` is what all have in common. The order
in which the parts of a plan are carried out is said where it is executed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource

EventType: TypeAlias = Literal["Normal", "Warning"]


class Event(msgspec.Struct, frozen=True):
    """One Kubernetes Event on the object that the plan is about."""

    type: EventType
    reason: str
    message: str


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One write, about `obj` of `resource`.

    `done` tells that it was made; `{name}` in its message stands for the object's name, which the server may have
    chosen. `refused` tells that the API refused it, and `{error}` why.
    """

    resource: Resource
    obj: Object
    done: Event | None = None
    refused: Event | None = None

    def succeeded(self, name: str) -> tuple[Event, ...]:
        """Return the events that tell of the write."""
        return _filled(self.done, "{name}", name)

    def failed(self, error: str) -> tuple[Event, ...]:
        """Return the events that tell why the write was not made."""
        return _filled(self.refused, "{error}", error)


class Create(Action, frozen=True):
    """Create `obj`, which need not have a name yet."""


class Patch(Action, frozen=True):
    """Apply the merge patch `patch` to the observed `obj`; a `resourceVersion` in it is a precondition."""

    patch: Object


class Adopt(Patch, frozen=True):
    """A patch that makes the plan's object the controller of `obj`: not to be done once that is being deleted."""


class Delete(Action, frozen=True):
    """Delete the observed `obj`: its uid is a precondition, so that its successor is never hit."""

    propagation: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one observation.

    `status` is the whole status to write, or None when the stored one is right.
    `requeue_after` is in seconds from the time of the observation, or None when no timer is needed.
    """

    actions: tuple[Action, ...] = ()
    status: Object | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


def _filled(event: Event | None, mark: str, text: str) -> tuple[Event, ...]:
    return (Event(event.type, event.reason, event.message.replace(mark, text)),) if event else ()
