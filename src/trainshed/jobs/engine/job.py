"""A job as the policies read it, of whatever kind and generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from trainshed.api.kind import Kind
from trainshed.jobs.engine import constants as c
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    status_of,
)

T = TypeVar("T")


class Replica(msgspec.Struct, frozen=True):
    """One replica type of one job: `count` pods from `template`; only the first `slots` are looked at."""

    type: str
    count: int
    slots: int
    restart_policy: str
    template: Object
    indexed: bool = True

    @property
    def slug(self) -> str:
        """The type as names and labels spell it, e.g. `worker`."""
        return self.type.lower()


class RunPolicy(Protocol):
    """What a job says about its run as a whole, whichever generation's type says it."""

    @property
    def clean_pod_policy(self) -> str | None: ...
    @property
    def ttl_seconds_after_finished(self) -> int | None: ...
    @property
    def active_deadline_seconds(self) -> int | None: ...
    @property
    def backoff_limit(self) -> int | None: ...
    @property
    def suspend(self) -> bool | None: ...
    @property
    def managed_by(self) -> str | None: ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job. `replicas` are in the order in which they are reconciled; a generation adds what it knows besides."""

    kind: Kind
    name: str
    namespace: str
    uid: str
    run_policy: RunPolicy
    replicas: tuple[Replica, ...]
    document: Object
    _computed: dict[object, Any] = msgspec.field(default_factory=dict)

    @property
    def is_terminating(self) -> bool:
        """Whether the job is being deleted; its children then go with the garbage collector."""
        return is_terminating(self.document)

    @property
    def is_managed_elsewhere(self) -> bool:
        """Whether another controller was named; an empty name is another one too."""
        manager = self.run_policy.managed_by
        return manager is not None and manager != c.MANAGED_BY_OPERATOR

    @property
    def is_suspended(self) -> bool:
        """Whether the job must not run now."""
        return bool(self.run_policy.suspend)

    @property
    def status(self) -> Object:
        """The stored status, empty before the first write."""
        return status_of(self.document)

    @property
    def total_replicas(self) -> int:
        """The number of pods over all replica types."""
        return sum(replica.count for replica in self.replicas)

    def once(self, what: object, compute: Callable[[], T]) -> T:
        """Return what `compute` returns, which is called once per job: of a thousand pods, all are told the same.

        `what` names it among all that is computed for the job. Nothing may change the value.
        """
        if what not in self._computed:
            self._computed[what] = compute()
        value: T = self._computed[what]
        return value

    def replica(self, type_: str) -> Replica | None:
        """Return the replica type, None when the job does not have it."""
        for replica in self.replicas:
            if replica.type == type_:
                return replica
        return None

    def labels(self) -> dict[str, str]:
        """Return the labels that every child has."""
        return {
            c.LABEL_OPERATOR_NAME: self.kind.controller_name,
            c.LABEL_JOB_NAME: self.name.replace("/", "-"),
        }

    def owner_reference(self) -> Object:
        """Return the reference that makes this job the controller of a child. All children share it."""
        return self.once("owner", self._owner_reference)

    def _owner_reference(self) -> Object:
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
