"""What a failed pod means under each restart policy."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    created,
    deleted,
    make_condition,
    make_job,
    make_pod,
    plan_for,
    read,
    reasons,
)
from trainshed.jobs.v1.pods import pod_restart_policy
from trainshed.jobs.v1.restart import is_retryable
from trainshed.kube.meta.times import format_time

RESTARTING, FAILED = "PyTorchJobRestarting", "PyTorchJobFailed"


@pytest.mark.parametrize(
    ("code", "retryable"),
    [(0, False), (1, False), (2, False), (3, False), (127, False)]
    + [(code, True) for code in (128, 130, 138, 255, None)],
)
def test_exit_codes(code: int | None, retryable: bool) -> None:
    assert is_retryable(code) is retryable


@pytest.mark.parametrize(
    ("policy", "pod_policy"),
    [("ExitCode", "Never"), ("Never", "Never"), ("Always", "Always"), ("OnFailure", "OnFailure")],
)
def test_the_node_gets_the_policy_but_for_exit_code(policy: str, pod_policy: str) -> None:
    (replica,) = read(make_job(workers=1, policy=policy)).replicas
    assert pod_restart_policy(replica) == pod_policy


@pytest.mark.parametrize(
    ("policy", "code", "restarts", "fails"),
    [
        ("OnFailure", 1, True, False),
        ("OnFailure", None, True, False),
        ("Always", 1, True, False),
        ("ExitCode", 130, True, False),
        ("ExitCode", 128, True, False),
        ("ExitCode", None, True, False),
        ("ExitCode", 127, False, True),
        ("ExitCode", 1, False, True),
        ("Never", 1, False, True),
        ("Never", None, False, True),
    ],
)
def test_one_failed_worker(policy: str, code: int | None, restarts: bool, fails: bool) -> None:
    """A replaced pod is deleted now and created when it is gone; a job that fails keeps the pod."""
    job = make_job(workers=2, policy=policy)
    pods = [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Failed", exit_code=code)]
    plan = plan_for(job, pods)
    assert deleted(plan, "Pod") == (["train-worker-1"] if restarts else [])
    assert created(plan) == []
    types = [t for t, status, _ in conditions_of(plan) if status == "True"]
    assert ("Restarting" in types, "Failed" in types) == (restarts, fails)
    assert (RESTARTING in reasons(plan), FAILED in reasons(plan)) == (restarts, fails)
    assert plan.counters == (("created", "restarted") if restarts else ("created", "failed"))
    assert plan.status is not None
    assert plan.status["replicaStatuses"]["Worker"]["failed"] == 1


def test_a_permanent_exit_code_ends_the_job_with_a_time_and_without_a_restart() -> None:
    """Without completionTime the time to live could never be computed."""
    pods = [make_pod("Worker", 0, "Failed", exit_code=1)]
    plan = plan_for(make_job(workers=1, policy="ExitCode"), pods)
    assert plan.status is not None
    assert plan.status["completionTime"] == format_time(NOW)
    message = 'job "train" is failing because "Worker" replica(s) failed.'
    assert plan.status["conditions"][-1]["message"] == message
    assert [(e.type, e.reason, e.message) for e in plan.events if e.reason != "ExitedWithCode"] == [
        ("Warning", FAILED, message)
    ]


def test_restarting_says_so_in_the_condition_and_in_two_events() -> None:
    plan = plan_for(make_job(workers=1), [make_pod("Worker", 0, "Failed", exit_code=1)])
    assert plan.status is not None
    message = "job train is restarting because Worker replica(s) failed."
    assert plan.status["conditions"][-1]["message"] == message
    assert [e.message for e in plan.events if e.reason == RESTARTING] == [
        message,
        "PyTorchJob train is restarting because 1 Worker replica(s) failed.",
    ]


def test_beside_a_running_master_the_condition_says_how_many_failed() -> None:
    pods = [make_pod("Master", 0, "Running"), make_pod("Worker", 0, "Failed", exit_code=1)]
    plan = plan_for(make_job(master=1, workers=1), pods)
    assert plan.status is not None
    message = "PyTorchJob train is restarting because 1 Worker replica(s) failed."
    assert plan.status["conditions"][-1]["message"] == message
    assert [e.message for e in plan.events if e.reason == RESTARTING] == [
        "job train is restarting because Worker replica(s) failed.",
        message,
    ]


def test_while_the_old_pod_is_going_nothing_changes() -> None:
    """With the master running beside it, the status must not flip between Running and Restarting."""
    job = make_job(master=1, workers=1)
    pods = [make_pod("Master", 0, "Running"), make_pod("Worker", 0, "Failed", exit_code=1)]
    first = plan_for(job, pods)
    job["status"] = first.status
    pods[1]["metadata"]["deletionTimestamp"] = format_time(NOW)
    again = plan_for(job, pods, now=NOW + 5)
    assert (again.actions, again.status) == ((), None)
    assert RESTARTING not in reasons(again)
    assert conditions_of(first)[-1][:2] == ("Restarting", "True")


def test_once_the_old_pod_is_gone_it_is_created_anew_and_the_job_runs_again() -> None:
    status = {
        "conditions": [make_condition("Created"), make_condition("Restarting")],
        "startTime": format_time(NOW),
    }
    plan = plan_for(make_job(master=1, workers=1, status=status), [make_pod("Master", 0, "Running")])
    assert created(plan) == ["train-worker-0"]
    assert [c[:2] for c in conditions_of(plan)] == [("Created", "True"), ("Running", "True")]


def test_draining_a_running_pod_counts_as_its_failure() -> None:
    """Under Never that fails the job; else it is restarting until the pod is replaced."""
    for policy, expected in (("Never", "Failed"), ("OnFailure", "Restarting")):
        pods = [make_pod("Worker", 0, "Running", terminating=True), make_pod("Worker", 1, "Running")]
        plan = plan_for(make_job(workers=2, policy=policy), pods)
        assert conditions_of(plan)[-1][0] == expected
        assert not plan.actions


def test_a_failed_pod_above_the_replica_count_restarts_nothing() -> None:
    pods = [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Failed", exit_code=1)]
    plan = plan_for(make_job(workers=1), pods)
    assert deleted(plan, "Pod") == ["train-worker-1"]
    assert [t for t, _, _ in conditions_of(plan)] == ["Created", "Running"]
