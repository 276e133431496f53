"""What a decision answers, in every controller. Values only.

    Observed ──decide (pure)──► Plan: actions, status, events, requeue_after ──execute──► the API

`Observed` is frozen data, the time among it, and each controller's own; `Plan` is what all have in common. The order
in which the parts of a plan are carried out is said where it is executed. Most controllers change objects (`Plan`);
the node's actions are steps of a pod's life.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from trainshed.kube.meta.objects import Object, name_of, namespace_of, uid_of
from trainshed.kube.meta.resources import Resource

ActionT = TypeVar("ActionT", covariant=True)
EventType: TypeAlias = Literal["Normal", "Warning"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """One Kubernetes Event on the object that the plan is about."""

    type: EventType
    reason: str
    message: str


class Told(msgspec.Struct, frozen=True, gc=False):
    """The events of one action: those of success, and the one of failure, whose message the error's text ends.

    `{name}` in the message of a success stands for the object's name, which the server may have chosen.
    """

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


class Action(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One change of one object of `resource`. The metric `counter` goes up by one when it happened."""

    resource: Resource
    told: Told = QUIET
    counter: str | None = None

    def succeeded(self, name: str = "") -> tuple[Event, ...]:
        """Return the events that tell of the change."""
        return tuple(
            Event(event.type, event.reason, event.message.replace("{name}", name)) for event in self.told.done
        )

    def failed(self, error: str) -> tuple[Event, ...]:
        """Return the events that tell why the change did not happen."""
        event = self.told.failed
        return () if event is None else (Event(event.type, event.reason, event.message + error),)


class Create(Action, frozen=True, kw_only=True):
    """Create `object`, which need not have a name yet.

    `given` is it, or what writes it each time it is asked for: a plan need not hold a thousand large pods at once.
    """

    given: Object | Callable[[], Object]

    @property
    def object(self) -> Object:
        """The object to create."""
        return self.given if isinstance(self.given, dict) else self.given()

    def __eq__(self, other: Any) -> bool:
        """Return whether the same is created, whatever writes it."""
        if type(other) is not Create:
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[Any, ...]:
        return self.resource, self.object, self.told, self.counter


class Apply(Action, frozen=True, kw_only=True):
    """Bring the object to this state, creating it if need be: a forced server-side apply."""

    object: Object


class Update(Action, frozen=True, kw_only=True):
    """Replace the object that was seen: `object` carries its resourceVersion."""

    object: Object


class Patch(Action, frozen=True, kw_only=True):
    """Apply the merge patch `patch` to the `object` that was seen; a `resourceVersion` in it is a precondition.

    Through `status` annotations are written without a new generation.
    """

    object: Object
    patch: Object
    subresource: str = ""


class Adopt(Patch, frozen=True, kw_only=True):
    """A patch that makes the plan's object the controller of `object`: not to be done once that is being deleted."""


class Delete(Action, frozen=True, kw_only=True):
    """Delete the object that was seen: `uid` is a precondition, so that its successor is never hit."""

    name: str
    namespace: str
    uid: str
    propagation: str | None = None

    @classmethod
    def of(
        cls, resource: Resource, seen: Object, tells: Tells | None = None, propagation: str | None = None
    ) -> Delete:
        """Return the deletion of an observed object."""
        name = name_of(seen)
        return cls(
            resource=resource,
            name=name,
            namespace=namespace_of(seen),
            uid=uid_of(seen),
            told=QUIET if tells is None else tells.deleted(name),
            propagation=propagation,
        )


class PlanOf(msgspec.Struct, Generic[ActionT], frozen=True, kw_only=True):
    """What to do about one observation; the actions are the controller's own.

    `status` is the whole status to write, or None when the stored one is right.
    `requeue_after` is in seconds from the time of the observation, or None when no timer is needed.
    """

    actions: tuple[ActionT, ...] = ()
    status: Object | None = None
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None


class Plan(PlanOf[Action], frozen=True, kw_only=True):
    """A plan whose actions are changes of objects in the API."""
