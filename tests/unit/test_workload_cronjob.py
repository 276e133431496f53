"""CronJobs: which Job is due, what happens while one runs, what is forgotten, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.controllers.workloads.cronjob import SCHEDULED, Observed, decide
from trainshed.kube.meta.objects import name_of
from trainshed.kube.meta.plan import Create, Delete, Plan
from trainshed.kube.meta.times import format_time

NOON = 1_772_366_400.0  # 2026-03-01T12:00:00Z


def make_cron_job(schedule: str = "*/10 * * * *", *, status: Any = None, **spec: Any) -> Any:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": "backup",
            "namespace": "ns",
            "uid": "cron-uid",
            "creationTimestamp": format_time(NOON - 300),
        },
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"metadata": {"labels": {"app": "b"}}, "spec": {"template": {"spec": {}}}},
            **spec,
        },
        "status": status or {},
    }


def make_job(due: float, end: str = "", at: float = NOON) -> Any:
    name = f"backup-{int(due // 60)}"
    status: Any = {"startTime": format_time(due)}
    if end:
        status["conditions"] = [{"type": end, "status": "True"}]
    if end == "Complete":
        status["completionTime"] = format_time(at)
    annotations = {SCHEDULED: format_time(due)}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": metadata, "status": status}


def plan_for(cron_job: Any, *jobs: Any, now: float = NOON + 20) -> Plan:
    return decide(Observed(cron_job, jobs, now))


def made(plan: Plan) -> list[str]:
    return [name_of(action.object) for action in plan.actions if isinstance(action, Create)]


def ended(plan: Plan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Delete)]


def test_the_job_that_is_due_is_made_once() -> None:
    plan = plan_for(make_cron_job())
    (action,) = plan.actions
    assert isinstance(action, Create)
    job = action.object
    assert name_of(job) == f"backup-{int(NOON // 60)}"
    assert job["metadata"]["labels"] == {"app": "b"}
    assert job["metadata"]["annotations"] == {SCHEDULED: "2026-03-01T12:00:00Z"}
    assert job["metadata"]["ownerReferences"][0]["uid"] == "cron-uid"
    assert plan.requeue_after == 580
    seen = plan_for(make_cron_job(), make_job(NOON))
    assert seen.actions == () and seen.status is not None
    assert seen.status["lastScheduleTime"] == "2026-03-01T12:00:00Z"
    assert [r["name"] for r in seen.status["active"]] == [name_of(job)]
    assert plan_for(make_cron_job(status=seen.status)).actions == (), "nor after that Job is gone"


def test_nothing_is_due_before_the_first_time_nor_while_suspended() -> None:
    assert plan_for(make_cron_job("0 13 * * *")).actions == ()
    assert plan_for(make_cron_job("0 13 * * *")).requeue_after == 3580
    assert plan_for(make_cron_job(suspend=True)).actions == ()


def test_of_missed_times_the_last_counts_unless_its_deadline_has_passed() -> None:
    late = make_cron_job(status={"lastScheduleTime": format_time(NOON - 86400)})
    assert made(plan_for(late)) == [f"backup-{int(NOON // 60)}"]
    missed = make_cron_job(startingDeadlineSeconds=10, status=late["status"])
    assert plan_for(missed).actions == ()
    assert made(plan_for(make_cron_job(startingDeadlineSeconds=30))) != []


@pytest.mark.parametrize(("policy", "new", "gone"), [("Allow", 1, 0), ("Forbid", 0, 0), ("Replace", 1, 1)])
def test_what_happens_while_the_last_job_runs(policy: str, new: int, gone: int) -> None:
    plan = plan_for(make_cron_job(concurrencyPolicy=policy), make_job(NOON - 600))
    assert (len(made(plan)), len(ended(plan))) == (new, gone)
    assert [e.reason for e in plan.events] == (["JobAlreadyActive"] if policy == "Forbid" else [])


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_a_job_that_somebody_made_from_it_is_no_run_of_its_own(policy: str) -> None:
    """As by `kubectl create job --from=cronjob/backup`."""
    manual = make_job(NOON - 60)
    manual["metadata"] = {**manual["metadata"], "name": "manual", "annotations": {}}
    plan = plan_for(make_cron_job(concurrencyPolicy=policy), manual)
    assert (len(made(plan)), ended(plan)) == (1, [])
    assert plan.status is not None and "active" not in plan.status
    (event,) = plan.events
    text = "Saw a job that the controller did not create or forgot: manual"
    assert (event.type, event.reason, event.message) == ("Warning", "UnexpectedJob", text)


def test_ended_jobs_beyond_the_limits_are_forgotten_oldest_first() -> None:
    good = [make_job(NOON - 600 * n, "Complete") for n in range(5)]
    bad = [make_job(NOON - 600 * n - 60, "Failed") for n in range(3)]
    plan = plan_for(make_cron_job(failedJobsHistoryLimit=0), *good, *bad)
    assert ended(plan) == [name_of(good[4]), name_of(good[3]), *(name_of(j) for j in reversed(bad))]


def test_the_end_of_a_job_is_told() -> None:
    running = plan_for(make_cron_job(), make_job(NOON)).status
    assert running is not None
    plan = plan_for(make_cron_job(status=running), make_job(NOON, "Complete", at=NOON + 10))
    assert [e.reason for e in plan.events] == ["SawCompletedJob"]
    assert plan.status is not None and "active" not in plan.status
    assert plan.status["lastSuccessfulTime"] == "2026-03-01T12:00:10Z"
    assert [e.reason for e in plan_for(make_cron_job(status=running)).events] == ["MissingJob"]


def told(events: Any) -> list[tuple[str, str, str]]:
    return [(event.type, event.reason, event.message) for event in events]


def test_jobs_that_are_made_and_deleted_are_told_in_the_words_of_the_controller() -> None:
    plan = plan_for(make_cron_job(concurrencyPolicy="Replace"), make_job(NOON - 600))
    gone, new = plan.actions
    name = f"backup-{int(NOON // 60) - 10}"
    assert told(gone.succeeded(name)) == [("Normal", "SuccessfulDelete", f"Deleted job {name}")]
    assert told(new.succeeded("x")) == [("Normal", "SuccessfulCreate", "Created job x")]
    assert told(gone.failed("no")) == [("Warning", "FailedDelete", "Deleted job: no")]
    assert told(new.failed("no")) == [("Warning", "FailedCreate", "Error creating job: no")]


@pytest.mark.parametrize(("missed", "many"), [(1, False), (100, False), (101, True), (5000, True)])
def test_more_than_a_hundred_missed_times_are_told(missed: int, many: bool) -> None:
    late = make_cron_job(status={"lastScheduleTime": format_time(NOON - 600 * missed)})
    plan = plan_for(late)
    assert made(plan) == [f"backup-{int(NOON // 60)}"], "the last of them counts all the same"
    text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert told(plan.events) == ([("Warning", "TooManyMissedTimes", text)] if many else [])
    late["spec"]["startingDeadlineSeconds"] = 600
    assert told(plan_for(late).events) == []


def test_a_schedule_that_cannot_be_read_is_told_and_nothing_is_made() -> None:
    plan = plan_for(make_cron_job("* *"))
    assert plan.actions == () and plan.events[0].reason == "UnparseableSchedule"
    assert plan.events[0].message == (
        'unparseable schedule: "* *" : expected exactly 5 fields, found 2: [* *]'
    )


def test_a_schedule_that_is_never_due_is_told() -> None:
    """Recorded with kube-controller-manager 1.33."""
    plan = plan_for(make_cron_job("0 0 31 2 *"))
    (event,) = plan.events
    assert (event.type, event.reason, event.message) == (
        "Warning",
        "InvalidSchedule",
        "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second",
    )
    assert plan.actions == () and plan.requeue_after is None


def test_a_job_is_stamped_in_the_time_zone_of_its_schedule() -> None:
    (action,) = plan_for(make_cron_job(timeZone="Europe/Berlin")).actions
    assert isinstance(action, Create)
    assert action.object["metadata"]["annotations"] == {SCHEDULED: "2026-03-01T13:00:00+01:00"}


def test_of_jobs_that_are_deleted_only_that_is_told() -> None:
    """Recorded with kube-controller-manager 1.33: neither that one was replaced, nor that one without history ended."""
    active = {"active": [{"uid": f"uid-backup-{int(NOON // 60) - 10}", "name": "old"}]}
    replacing = plan_for(make_cron_job(concurrencyPolicy="Replace", status=active), make_job(NOON - 600))
    assert ended(replacing) and made(replacing) and not replacing.events
    assert replacing.status is not None and "active" not in replacing.status
    gone = plan_for(make_cron_job(failedJobsHistoryLimit=0, status=active), make_job(NOON - 600, "Failed"))
    assert ended(gone) and not gone.events
