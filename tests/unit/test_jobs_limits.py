"""backoffLimit and activeDeadlineSeconds."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    deleted,
    make_condition,
    make_job,
    make_pod,
    plan_for,
    reasons,
)
from trainshed.kube.meta.times import format_time

STARTED = {
    "conditions": [make_condition("Created"), make_condition("Running")],
    "startTime": format_time(NOW - 10),
}
BACKOFF = "Job train has failed because it has reached the specified backoff limit"
DEADLINE = "Job train has failed because it was active longer than specified deadline"


@pytest.mark.parametrize(
    ("limit", "policy", "restarts", "fails"),
    [
        (0, "OnFailure", [0, 0], False),
        (0, "OnFailure", [1, 0], True),
        (3, "OnFailure", [3, 0], True),
        (3, "OnFailure", [2, 1], True),
        (3, "OnFailure", [2, 0], False),
        (3, "Always", [3, 0], True),
        (3, "ExitCode", [3, 0], True),
        (3, "Never", [3, 0], False),
    ],
)
def test_container_restarts(limit: int, policy: str, restarts: list[int], fails: bool) -> None:
    job = make_job(workers=2, policy=policy, status=STARTED, backoffLimit=limit)
    pods = [make_pod("Worker", i, "Running", restarts=n) for i, n in enumerate(restarts)]
    plan = plan_for(job, pods)
    failed = plan.status is not None and plan.status["conditions"][-1]["type"] == "Failed"
    assert failed is fails
    if fails:
        assert plan.status is not None and plan.status["conditions"][-1]["message"] == BACKOFF


def test_only_running_pods_count_and_init_containers_do() -> None:
    job = make_job(workers=1, status=STARTED, backoffLimit=2)
    pending = make_pod("Worker", 0, "Pending", restarts=5)
    assert "PyTorchJobFailed" not in reasons(plan_for(job, [pending]))
    running = make_pod("Worker", 0, "Running", restarts=1)
    running["status"]["initContainerStatuses"] = [{"name": "init", "restartCount": 1}]
    assert "PyTorchJobFailed" in reasons(plan_for(job, [running]))


@pytest.mark.parametrize(("limit", "fails"), [(0, True), (1, False), (None, False)])
def test_a_new_failed_pod_exceeds_only_a_limit_of_zero(limit: int | None, fails: bool) -> None:
    policy = {} if limit is None else {"backoffLimit": limit}
    job = make_job(workers=2, policy="ExitCode", status=STARTED, **policy)
    pods = [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Failed", exit_code=137)]
    assert (BACKOFF in [e.message for e in plan_for(job, pods).events]) is fails


def test_pods_that_are_missing_exceed_no_limit() -> None:
    job = make_job(workers=2, policy="ExitCode", status=STARTED, backoffLimit=0)
    plan = plan_for(job, [make_pod("Worker", 0, "Running")])
    assert BACKOFF not in [event.message for event in plan.events]


@pytest.mark.parametrize(
    ("before", "fails"),
    [({"active": 2}, True), ({"failed": 0}, True), ({"failed": 1}, False), ({"failed": 2}, False)],
)
def test_only_a_failure_that_the_status_has_not_counted_is_new(before: dict[str, int], fails: bool) -> None:
    status = {**STARTED, "replicaStatuses": {"Worker": before}}
    job = make_job(workers=2, policy="ExitCode", status=status, backoffLimit=0)
    pods = [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Failed", exit_code=137)]
    assert (BACKOFF in [e.message for e in plan_for(job, pods).events]) is fails


@pytest.mark.parametrize(
    ("deadline", "fails", "timer"), [(0, True, None), (10, True, None), (11, False, 1.0), (60, False, 50.0)]
)
def test_the_deadline_has_a_timer(deadline: int, fails: bool, timer: float | None) -> None:
    """The job started 10 seconds ago. Without a timer an idle job would overrun until something happens."""
    job = make_job(workers=1, status=STARTED, activeDeadlineSeconds=deadline)
    plan = plan_for(job, [make_pod("Worker", 0, "Running")])
    assert (DEADLINE in [e.message for e in plan.events]) is fails
    assert plan.requeue_after == timer


def test_the_timer_runs_from_the_first_pass() -> None:
    assert plan_for(make_job(workers=1, activeDeadlineSeconds=30)).requeue_after == 30.0


def test_the_backoff_limit_speaks_before_the_deadline() -> None:
    job = make_job(workers=1, status=STARTED, activeDeadlineSeconds=1, backoffLimit=1)
    plan = plan_for(job, [make_pod("Worker", 0, "Running", restarts=1)])
    assert plan.status is not None and plan.status["conditions"][-1]["message"] == BACKOFF


@pytest.mark.parametrize("clean", ["None", "Running", "All"])
def test_the_failure_is_written_before_any_pod_goes(clean: str) -> None:
    """Killed in between, the operator must not find a job without pods and start it again."""
    job = make_job(workers=2, status=STARTED, activeDeadlineSeconds=1, cleanPodPolicy=clean)
    pods = [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Succeeded")]
    first = plan_for(job, pods)
    assert first.actions == ()
    assert conditions_of(first) == [
        ("Created", "True", "PyTorchJobCreated"),
        ("Running", "False", "PyTorchJobRunning"),
        ("Failed", "True", "PyTorchJobFailed"),
    ]
    assert first.status is not None and first.status["completionTime"] == format_time(NOW)
    assert [(e.type, e.reason) for e in first.events] == [("Normal", "PyTorchJobFailed")]
    job["status"] = first.status
    second = plan_for(job, pods)
    assert deleted(second, "Pod") == ["train-worker-0", "train-worker-1"], "whatever cleanPodPolicy says"
    assert deleted(second, "Service") == ["train-worker-0", "train-worker-1"]
    assert second.status is None
