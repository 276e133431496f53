"""What `decide` answers: actions in order, the status to write, and what to say once that is done.

How to execute a plan
    1. Run `actions` in order. After each, emit `action.succeeded()`; on an error emit `action.failed(error)`
       and stop: the status then describes a world that does not exist, so it is not written.
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

from trainshed.jobs.engine import constants as c
from trainshed.kube.meta.objects import Object, name_of, uid_of

EventType: TypeAlias = Literal["Normal", "Warning"]

Counter: TypeAlias = Literal["created", "successful", "failed", "restarted"]
"""Which `training_operator_jobs_<counter>_total` goes up by one. A deleted job is counted with its DeleteJob."""


class Event(msgspec.Struct, frozen=True):
    """One Kubernetes Event on the job."""

    type: EventType
    reason: str
    message: str


class Action(msgspec.Struct, frozen=True):
    """One change of the world; subclasses say which and carry their own events."""

    def succeeded(self) -> tuple[Event, ...]:
        """Return the events that tell of the change."""
        return ()

    def failed(self, error: str) -> tuple[Event, ...]:
        """Return the events that tell why the change did not happen."""
        return ()


class CreatePod(Action, frozen=True):
    """Create `pod`; `overrides_restart_policy` when its template said something else."""

    pod: Object
    overrides_restart_policy: bool = False

    def succeeded(self) -> tuple[Event, ...]:
        created = Event("Normal", c.SUCCESSFUL_CREATE_POD, f"Created pod: {name_of(self.pod)}")
        if not self.overrides_restart_policy:
            return (created,)
        warning = Event("Warning", c.SET_POD_TEMPLATE_RESTART_POLICY, c.RESTART_POLICY_OVERRIDDEN_MESSAGE)
        return (warning, created)

    def failed(self, error: str) -> tuple[Event, ...]:
        return (Event("Warning", c.FAILED_CREATE_POD, f"Error creating: {error}"),)


class CreateService(Action, frozen=True):
    """Create the headless `service` that names one pod."""

    service: Object

    def succeeded(self) -> tuple[Event, ...]:
        return (Event("Normal", c.SUCCESSFUL_CREATE_SERVICE, f"Created service: {name_of(self.service)}"),)

    def failed(self, error: str) -> tuple[Event, ...]:
        return (Event("Warning", c.FAILED_CREATE_SERVICE, f"Error creating: {error}"),)


class DeletePod(Action, frozen=True):
    """Delete the pod that was seen: `uid` is a precondition, so that its successor is never hit."""

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, pod: Object, namespace: str) -> DeletePod:
        """Return the deletion of an observed pod."""
        return cls(name_of(pod), namespace, uid_of(pod))

    def succeeded(self) -> tuple[Event, ...]:
        return (Event("Normal", c.SUCCESSFUL_DELETE_POD, f"Deleted pod: {self.name}"),)

    def failed(self, error: str) -> tuple[Event, ...]:
        return (Event("Warning", c.FAILED_DELETE_POD, f"Error deleting: {error}"),)


class DeleteService(Action, frozen=True):
    """Delete the service that was seen; `uid` is a precondition."""

    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, service: Object, namespace: str) -> DeleteService:
        """Return the deletion of an observed service."""
        return cls(name_of(service), namespace, uid_of(service))

    def succeeded(self) -> tuple[Event, ...]:
        return (Event("Normal", c.SUCCESSFUL_DELETE_SERVICE, f"Deleted service: {self.name}"),)

    def failed(self, error: str) -> tuple[Event, ...]:
        return (Event("Warning", c.FAILED_DELETE_SERVICE, f"Error deleting: {error}"),)


class ApplyHPA(Action, frozen=True):
    """Bring the HorizontalPodAutoscaler to this state, creating it if need be: a forced server-side apply."""

    hpa: Object


class DeleteHPA(Action, frozen=True):
    """Delete the HorizontalPodAutoscaler that was seen; `uid` is a precondition."""

    name: str
    namespace: str
    uid: str


class DeleteJob(Action, frozen=True):
    """Delete the job itself with the default propagation; `uid` is a precondition. Always alone and last."""

    name: str
    namespace: str
    uid: str

    # The reasons say Pod although a job goes: clients of the v1 operator match on them for this kind.
    def succeeded(self) -> tuple[Event, ...]:
        return (Event("Normal", c.SUCCESSFUL_DELETE_POD, f"Deleted job: {self.name}"),)

    def failed(self, error: str) -> tuple[Event, ...]:
        return (Event("Warning", c.FAILED_DELETE_POD, f"Error deleting: {error}"),)


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

    @property
    def delete_job(self) -> bool:
        """Say whether the job has outlived its time to live."""
        return any(isinstance(action, DeleteJob) for action in self.actions)
