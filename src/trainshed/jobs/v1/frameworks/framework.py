"""What a framework has to say about a job, as values: it never touches a pod or a status itself.

A kind costs one class with the five methods below, a row in `api.kinds`, its types, and a line in `FRAMEWORKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from trainshed.api.v1.validation import FieldError
from trainshed.jobs.engine.job import Job, Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What a framework adds to one pod: `env` to every container, `init_containers` after the template's."""

    env: tuple[Object, ...] = ()
    init_containers: tuple[Object, ...] = ()


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of one replica type run, ended well, or failed; pending ones are in none."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Failing(msgspec.Struct, frozen=True):
    """One replica type that lacks pods because `failed` of them failed; `restarts` says they are replaced."""

    replica_type: str
    failed: int
    restarts: bool
    message: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the counts mean for the job. `running` and `succeeded` hold the message of that condition, or None.

    Once a job has succeeded nothing else is said about it.
    """

    running: str | None = None
    succeeded: str | None = None
    failing: tuple[Failing, ...] = ()


class Framework(Protocol):
    """One way to train in parallel."""

    def read(self, document: Object) -> tuple[Job, tuple[FieldError, ...]]:
        """Return the defaulted job and what is wrong with it.

        Raises msgspec.ValidationError for a document that its CRD would not have let in.
        """
        ...

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """Say whether this pod speaks for the job: its logs are the ones to show."""
        ...

    def contribute(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> Contribution:
        """Return what one pod needs to find the others and know its place."""
        ...

    def judge(self, job: Job, tallies: Mapping[str, Tally]) -> Judgement:
        """Return what the counts by replica type mean for the job."""
        ...

    def autoscaler(self, job: Job) -> Object | None:
        """Return the HorizontalPodAutoscaler that the job asks for, if it does."""
        ...
