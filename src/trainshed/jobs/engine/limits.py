"""When a job has had enough: backoffLimit and activeDeadlineSeconds.

The failure is written first and the pods are deleted when it is seen to be written. The other way round, an
operator that is stopped in between would find a job without pods and start it again.
Facts: limits of the Kubeflow training operator v1; there the deadline had no timer of its own.
"""

from __future__ import annotations

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, count_in
from trainshed.jobs.engine.conditions import find
from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.status import Draft
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import container_statuses, init_container_statuses, is_active
from trainshed.kube.meta.pods import phase as pod_phase

_RESTARTING_POLICIES = ("OnFailure", "Always", "ExitCode")


def exceeded(job: Job, children: Children, draft: Draft) -> str | None:
    """Return the message of the limit that the job has reached, the backoff limit before the deadline."""
    if _is_past_backoff_limit(job, children, draft):
        return _backoff_message(job)
    left = deadline_left(job, draft)
    return _deadline_message(job) if left == 0 else None


def deadline_left(job: Job, draft: Draft) -> float | None:
    """Return the seconds until the deadline, at least 0; None without a deadline or before the start."""
    deadline, started_at = job.run_policy.active_deadline_seconds, draft.started_at()
    if deadline is None or started_at is None:
        return None
    return max(started_at + deadline - draft.now, 0.0)


def ended(job: Job, draft: Draft) -> bool:
    """Return whether a limit is what the job failed by: then no pod outlives it, whatever cleanPodPolicy says."""
    failed = find(draft.conditions, c.FAILED) or {}
    return failed.get("message") in (_backoff_message(job), _deadline_message(job))


def _is_past_backoff_limit(job: Job, children: Children, draft: Draft) -> bool:
    limit = job.run_policy.backoff_limit
    if limit is None:
        return False
    failed_now = sum(pod_phase(pod) == "Failed" for pod in children.pods)
    failed_before = sum(count_in(counts, "failed") for counts in draft.replica_statuses.values())
    active = sum(is_active(pod) for pod in children.pods)
    if limit < 1 and failed_now > failed_before and active != job.total_replicas:
        return True
    restarts = sum(
        _restart_count(slot_pod)
        for replica in job.replicas
        if replica.restart_policy in _RESTARTING_POLICIES
        for slot in children.of(replica)
        for slot_pod in slot.pods
        if pod_phase(slot_pod) == "Running"
    )
    return restarts >= max(limit, 1)


def _restart_count(pod: Object) -> int:
    """Return how often containers of the pod were restarted, init containers included."""
    return sum(
        count_in(status, "restartCount")
        for status in (*init_container_statuses(pod), *container_statuses(pod))
    )


def _backoff_message(job: Job) -> str:
    return f"Job {job.name} has failed because it has reached the specified backoff limit"


def _deadline_message(job: Job) -> str:
    return f"Job {job.name} has failed because it was active longer than specified deadline"
