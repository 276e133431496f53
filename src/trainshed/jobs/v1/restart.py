"""What a failed pod means under each restart policy.

    policy              exit code of the kind's container    what happens
    OnFailure, Always   any                                  the pod is deleted and replaced
    ExitCode            128 and up, or none recorded         the pod is deleted and replaced
    ExitCode            0 to 127                             the job fails, the pod is kept
    any other           any                                  nothing here: the counts fail the job

A code from 128 on means killed by a signal, which the program is not to blame for. No code means that the pod was
evicted or lost. Under OnFailure the node has restarted the containers itself; a pod that is Failed all the same
was evicted, or its node is gone. The replacement is created when the old pod is seen to be gone.
A framework with another table says so in its `restart`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from trainshed.jobs.engine.job import Replica
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object

FIRST_RETRYABLE_EXIT_CODE = 128

Restart: TypeAlias = Literal["replace", "fail", "leave"]
"""What becomes of a failed pod: another takes its place, or the job fails for good, or the counts decide."""


def is_retryable(exit_code: int | None) -> bool:
    """Return whether a program that ended so may do better next time."""
    return exit_code is None or exit_code >= FIRST_RETRYABLE_EXIT_CODE


def by_policy(policy: str, exit_code: int | None) -> Restart:
    """Return what the table above says."""
    if policy in ("OnFailure", "Always"):
        return "replace"
    if policy == "ExitCode":
        return "replace" if is_retryable(exit_code) else "fail"
    return "leave"


class Failure(msgspec.Struct, frozen=True):
    """One failed pod that the job still wants, and what becomes of it."""

    replica: Replica
    pod: Object
    restart: Restart


def failing_message(job: Job, replica_type: str) -> str:
    """Return what a permanent failure says in the condition and in the event."""
    return f'job "{job.name}" is failing because "{replica_type}" replica(s) failed.'


def restarting_message(job: Job, replica_type: str) -> str:
    """Return what a restart says in the condition and in the event."""
    return f"job {job.name} is restarting because {replica_type} replica(s) failed."
