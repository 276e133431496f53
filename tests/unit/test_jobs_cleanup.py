"""cleanPodPolicy and time to live."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import (
    NOW,
    deleted,
    kinds_of,
    make_condition,
    make_job,
    make_pod,
    make_service,
    plan_for,
)
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time


def finished(outcome: str = "Succeeded", at: float | None = NOW) -> Object:
    status: Object = {"conditions": [make_condition("Created"), make_condition(outcome, at=at or NOW)]}
    if at is not None:
        status["completionTime"] = format_time(at)
    return status


PODS = [
    make_pod("Master", 0, "Succeeded"),
    make_pod("Worker", 0, "Running"),
    make_pod("Worker", 1, "Pending"),
    make_pod("Worker", 2, "Failed"),
]
ALL = ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    ("policy", "gone"),
    [("None", []), (None, []), ("Running", ALL[1:3]), ("All", ALL), ("Whatever", ALL)],
)
def test_clean_pod_policy(outcome: str, policy: str | None, gone: list[str]) -> None:
    job = make_job(
        master=1, workers=3, status=finished(outcome), **({"cleanPodPolicy": policy} if policy else {})
    )
    plan = plan_for(job, PODS)
    assert deleted(plan, "Pod") == gone
    assert deleted(plan, "Service") == gone


def test_a_suspended_job_loses_all_pods_whatever_the_policy() -> None:
    plan = plan_for(make_job(master=1, workers=3, suspend=True, cleanPodPolicy="None"), PODS)
    assert deleted(plan, "Pod") == ALL


def test_a_service_goes_before_its_pod_and_one_whose_pod_is_gone_goes_too() -> None:
    job = make_job(workers=2, status=finished(), cleanPodPolicy="All")
    services = [make_service("Worker", 0), make_service("Worker", 1)]
    plan = plan_for(job, [make_pod("Worker", 0, "Running")], services=services)
    assert kinds_of(plan) == ["DeleteService", "DeletePod", "DeleteService"]
    assert deleted(plan, "Service") == ["train-worker-0", "train-worker-1"]


@pytest.mark.parametrize(
    ("policy", "gone"), [("None", []), ("Running", ["train-worker-1"]), ("All", ["train-worker-1"])]
)
def test_a_service_whose_pod_is_gone_stays_only_where_all_stays(policy: str, gone: list[str]) -> None:
    """That of a pod that has ended stays with it."""
    job = make_job(workers=2, status=finished(), cleanPodPolicy=policy)
    services = [make_service("Worker", 0), make_service("Worker", 1)]
    plan = plan_for(job, [make_pod("Worker", 0, "Succeeded")], services=services)
    assert [name for name in deleted(plan, "Service") if name != "train-worker-0"] == gone


def test_a_suspended_job_loses_services_whose_pods_are_gone() -> None:
    plan = plan_for(make_job(workers=1, suspend=True), services=[make_service("Worker", 0)])
    assert kinds_of(plan) == ["DeleteService"]


def test_what_is_already_going_is_skipped() -> None:
    job = make_job(workers=1, status=finished(), cleanPodPolicy="All")
    service = make_service("Worker", 0, deletionTimestamp=format_time(NOW))
    assert (
        plan_for(job, [make_pod("Worker", 0, "Running", terminating=True)], services=[service]).actions == ()
    )


def test_deletes_carry_the_uid_that_was_seen() -> None:
    job = make_job(workers=1, status=finished(), cleanPodPolicy="All")
    plan = plan_for(job, [make_pod("Worker", 0, "Running")])
    assert [a.uid for a in plan.actions] == ["service-worker-0", "pod-worker-0"]  # type: ignore[attr-defined]


def test_pods_that_ran_when_the_job_succeeded_count_as_succeeded() -> None:
    status = {
        **finished(),
        "replicaStatuses": {"Master": {}, "Worker": {"active": 2, "succeeded": 1}},
    }
    plan = plan_for(make_job(master=1, workers=3, status=status), PODS)
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Master": {}, "Worker": {"succeeded": 3}}


def test_counts_are_frozen_when_the_job_failed() -> None:
    status = {**finished("Failed"), "replicaStatuses": {"Worker": {"active": 2, "failed": 1}}}
    assert plan_for(make_job(workers=3, status=status), PODS[1:]).status is None


@pytest.mark.parametrize(
    ("ttl", "ago", "gone", "timer"),
    [
        (None, 180, False, None),
        (0, 0, True, None),
        (60, 180, True, None),
        (60, 60, True, None),
        (3, 2, False, 1.0),
    ],
)
@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
def test_time_to_live(ttl: int | None, ago: int, gone: bool, timer: float | None, outcome: str) -> None:
    policy = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    plan = plan_for(make_job(workers=1, status=finished(outcome, NOW - ago), **policy))
    assert (deleted(plan, "PyTorchJob") == ["train"]) is gone
    assert plan.requeue_after == timer
    if gone:
        (action,) = plan.actions
        (event,) = action.succeeded()
        assert (event.reason, event.message) == ("SuccessfulDeletePod", "Deleted job: train")


def test_a_clock_that_was_set_back_deletes_no_job_early() -> None:
    plan = plan_for(make_job(workers=1, status=finished(at=NOW + 7200), ttlSecondsAfterFinished=10))
    assert (deleted(plan, "PyTorchJob"), plan.requeue_after) == ([], 7210.0)


def test_a_job_that_runs_has_no_time_to_live() -> None:
    plan = plan_for(make_job(workers=1, ttlSecondsAfterFinished=0), [make_pod("Worker", 0, "Running")])
    assert (deleted(plan, "PyTorchJob"), plan.requeue_after) == ([], None)


def test_a_suspended_finished_job_is_kept() -> None:
    job = make_job(workers=1, status=finished(at=NOW - 99), ttlSecondsAfterFinished=1, suspend=True)
    plan = plan_for(job)
    assert (deleted(plan, "PyTorchJob"), plan.requeue_after) == ([], None)


def test_a_failure_without_completion_time_counts_from_its_condition() -> None:
    """Another operator may have left the job so; it would otherwise be kept for ever."""
    plan = plan_for(make_job(workers=1, status={**finished("Failed", None)}, ttlSecondsAfterFinished=5))
    assert plan.requeue_after == 5.0


def test_the_last_status_is_written_before_the_job_is_deleted() -> None:
    status = {**finished(), "replicaStatuses": {"Worker": {"active": 1}}}
    plan = plan_for(make_job(workers=1, status=status, ttlSecondsAfterFinished=0))
    assert (deleted(plan, "PyTorchJob"), plan.requeue_after) == ([], 0.0)
    assert plan.status is not None
