"""What a failed pod means under each restart policy.

    policy              exit code of the kind's container    what happens
    OnFailure, Always   any                                  the pod is deleted and replaced
    ExitCode            128 and up, or none recorded         the pod is deleted and replaced
    ExitCode            0 to 127                             the job fails, the pod is kept
    Never               any                                  nothing here: the counts fail the job

A code from 128 on means killed by a signal, which the program is not to blame for. No code means that the pod was
evicted or lost. Under OnFailure the node has restarted the containers itself; a pod that is Failed all the same
was evicted, or its node is gone. The replacement is created when the old pod is seen to be gone.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trainshed.jobs.engine.children import Children
from trainshed.jobs.engine.job import Job, Replica
from trainshed.kube.meta.objects import Object, pod_phase, terminated_states

FIRST_RETRYABLE_EXIT_CODE = 128


def _always(exit_code: int | None) -> bool:
    return True


def _never(exit_code: int | None) -> bool:
    return False


def is_retryable(exit_code: int | None) -> bool:
    """Say whether a program that ended so may do better next time."""
    return exit_code is None or exit_code >= FIRST_RETRYABLE_EXIT_CODE


POLICIES: dict[str, Callable[[int | None], bool]] = {
    "OnFailure": _always,
    "Always": _always,
    "ExitCode": is_retryable,
    "Never": _never,
}
"""Whether a failed pod is replaced, by restart policy. Any other policy is Never."""


def exit_code(pod: Object, container: str) -> int | None:
    """Return the exit code of the named container, None when none was recorded."""
    codes = [
        code for state in terminated_states(pod, container) if isinstance(code := state.get("exitCode"), int)
    ]
    return codes[-1] if codes else None


class Failure(msgspec.Struct, frozen=True):
    """One failed pod that the job still wants."""

    replica: Replica
    pod: Object


def replaceable(job: Job, children: Children) -> list[Failure]:
    """Return the failed pods that are to be replaced, those included whose delete is under way."""
    return [
        failure
        for failure in _failures(children)
        if POLICIES.get(failure.replica.restart_policy, _never)(_code(job, failure))
    ]


def permanently_failed(job: Job, children: Children) -> str | None:
    """Return the message of the first replica type that failed for good under ExitCode."""
    for failure in _failures(children):
        if failure.replica.restart_policy == "ExitCode" and not is_retryable(_code(job, failure)):
            return f'job "{job.name}" is failing because "{failure.replica.type}" replica(s) failed.'
    return None


def restarting_message(job: Job, replica_type: str) -> str:
    """Return what a restart says in the condition and in the event."""
    return f"job {job.name} is restarting because {replica_type} replica(s) failed."


def _failures(children: Children) -> list[Failure]:
    return [
        Failure(slot.replica, slot.pod)
        for slot in children.slots
        if slot.wanted and slot.pod is not None and pod_phase(slot.pod) == "Failed"
    ]


def _code(job: Job, failure: Failure) -> int | None:
    return exit_code(failure.pod, job.kind.container_name)
