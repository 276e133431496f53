"""The whole judgement: typical lives of a job, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    created,
    kinds_of,
    make_condition,
    make_job,
    make_pod,
    make_replica,
    make_service,
    plan_for,
    reasons,
)
from tests.unit.jobs_world import World
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.times import format_time


def shape(world: World) -> list[tuple[str, str]]:
    return list(world.conditions().items())


def test_a_life_from_created_to_succeeded() -> None:
    world = World(make_job(master=1, workers=1), NOW)
    first = world.reconcile()
    assert first.counters == ("created",)
    assert shape(world) == [("Created", "True")]
    assert world.job is not None and world.job["status"]["startTime"] == format_time(NOW)
    world.settle()
    for name in list(world.pods):
        world.start(name)
    world.settle()
    assert shape(world) == [("Created", "True"), ("Running", "True")]
    world.now += 9
    world.end("train-master-0", 0)
    last = world.reconcile()
    assert last.counters == ("successful",)
    assert [(e.type, e.reason) for e in last.events] == [
        ("Normal", "ExitedWithCode"),
        ("Normal", "PyTorchJobSucceeded"),
    ]
    assert shape(world) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    world.settle()
    selector = (
        "training.kubeflow.org/job-name=train,training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type="
    )
    status = world.job["status"]
    assert status["completionTime"] == format_time(NOW + 9)
    assert status["replicaStatuses"] == {
        "Master": {"succeeded": 1, "selector": selector + "master"},
        "Worker": {"succeeded": 1, "selector": selector + "worker"},
    }


def test_success_that_was_never_seen_running() -> None:
    plan = plan_for(make_job(workers=1), [make_pod("Worker", 0, "Succeeded", exit_code=0)])
    assert [c[:2] for c in conditions_of(plan)] == [("Created", "True"), ("Succeeded", "True")]


def test_every_type_keeps_its_selector_when_the_master_succeeds() -> None:
    plan = plan_for(make_job(master=1, workers=1), [make_pod("Master", 0, "Succeeded")])
    assert plan.status is not None
    assert all(counts["selector"] for counts in plan.status["replicaStatuses"].values())
    assert set(plan.status["replicaStatuses"]) == {"Master", "Worker"}


def test_failure_after_running() -> None:
    status = {
        "conditions": [make_condition("Created"), make_condition("Running")],
        "startTime": format_time(NOW),
    }
    job = make_job(workers=2, policy="Never", status=status)
    plan = plan_for(job, [make_pod("Worker", 0, "Running"), make_pod("Worker", 1, "Failed", exit_code=1)])
    assert plan.status is not None
    assert [(c["type"], c["status"]) for c in plan.status["conditions"]] == [
        ("Created", "True"),
        ("Running", "False"),
        ("Failed", "True"),
    ]
    message = "PyTorchJob train is failed because 1 Worker replica(s) failed."
    assert plan.status["conditions"][-1]["message"] == message
    assert ("Normal", "PyTorchJobFailed", message) in [(e.type, e.reason, e.message) for e in plan.events]
    assert plan.counters == ("failed",)


@pytest.mark.parametrize(
    ("manager", "acts"),
    [
        (None, True),
        ("kubeflow.org/training-operator", True),
        ("kueue.x-k8s.io/multikueue", False),
        ("other", False),
        ("", False),
    ],
)
def test_managed_by(manager: str | None, acts: bool) -> None:
    plan = plan_for(make_job(workers=1, **({} if manager is None else {"managedBy": manager})))
    assert (plan != Plan()) is acts


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    job = make_job(workers=1)
    job["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert plan_for(job, [make_pod("Worker", 0, "Failed")]) == Plan()


def test_a_status_that_is_right_is_not_written() -> None:
    job = make_job(workers=1)
    pods = [make_pod("Worker", 0, "Running")]
    job["status"] = plan_for(job, pods).status
    assert plan_for(job, pods, now=NOW + 100) == Plan()


def test_fields_of_the_status_that_are_not_ours_survive() -> None:
    plan = plan_for(make_job(workers=1, status={"lastReconcileTime": format_time(NOW), "future": 1}))
    assert plan.status is not None
    assert (plan.status["lastReconcileTime"], plan.status["future"]) == (format_time(NOW), 1)


def test_counts_of_pods() -> None:
    """A running pod that is being deleted counts as failed; pending and unknown pods as nothing."""
    pods = [
        make_pod("Worker", 0, "Running"),
        make_pod("Worker", 1, "Running", terminating=True),
        make_pod("Worker", 2, "Succeeded"),
        make_pod("Worker", 3, "Failed"),
        make_pod("Worker", 4, "Pending"),
        make_pod("Worker", 5, "Unknown"),
    ]
    plan = plan_for(make_job(workers=6), pods)
    assert plan.status is not None
    counts = dict(plan.status["replicaStatuses"]["Worker"])
    del counts["selector"]
    assert counts == {"active": 1, "succeeded": 1, "failed": 2}


def test_a_missing_service_is_made_for_a_pod_that_is_there() -> None:
    plan = plan_for(
        make_job(workers=2), [make_pod("Worker", 0, "Running")], services=[make_service("Worker", 1)]
    )
    assert kinds_of(plan) == ["CreatePod", "CreateService"]


@pytest.mark.parametrize(
    "spec",
    [
        {"pytorchReplicaSpecs": {}},
        {"pytorchReplicaSpecs": {"Worker": {}}},
        {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}},
        {
            "pytorchReplicaSpecs": {
                "Worker": make_replica(1, template={"spec": {"containers": [{"name": "x"}]}})
            }
        },
        {"pytorchReplicaSpecs": {"Worker": make_replica(-1)}},
        {"pytorchReplicaSpecs": {"Master": make_replica(2)}},
        {"pytorchReplicaSpecs": {"Sidekick": make_replica(1)}},
        {"pytorchReplicaSpecs": {"Worker": make_replica(1)}, "elasticPolicy": {}},
        {"pytorchReplicaSpecs": {"Master": make_replica(1)}, "elasticPolicy": {}},
        {"pytorchReplicaSpecs": "text"},
        {"pytorchReplicaSpecs": None},
        {},
        {"pytorchReplicaSpecs": {"Worker": make_replica(1)}, "nprocPerNode": "x" * 99},
    ],
)
def test_no_document_makes_it_raise(spec: dict[str, Any]) -> None:
    """Such jobs get in only past the webhook. They are told why, or run, but never loop or crash."""
    job = make_job(workers=1)
    job["spec"] = spec
    plan = plan_for(job, [make_pod("Worker", 0, "Failed", exit_code=1), make_pod("Worker", -1, "Running")])
    runs = any(isinstance(a, Create) for a in plan.actions)
    assert runs or plan.events or plan.status is not None


@pytest.mark.parametrize(
    "counts", [{"Worker": [1]}, {"Worker": "x"}, {"Worker": {"failed": "x", "active": [1], "succeeded": {}}}]
)
@pytest.mark.parametrize("ended", [False, True])
def test_no_stored_count_makes_it_raise(counts: dict[str, Any], ended: bool) -> None:
    """No CRD stores such a status; a cluster whose CRD is of somebody else's making might."""
    status: dict[str, Any] = {"replicaStatuses": counts}
    if ended:
        status["conditions"] = [make_condition("Succeeded")]
    pod = make_pod("Worker", 0, "Succeeded" if ended else "Running", exit_code=0)
    pod["status"]["containerStatuses"][0]["restartCount"] = "x"
    plan = plan_for(make_job(workers=1, status=status, backoffLimit=0), [pod])
    assert plan.status is not None
    if not ended:
        assert plan.status["replicaStatuses"]["Worker"]["active"] == 1


def test_an_invalid_job_says_why_and_starts_nothing() -> None:
    plan = plan_for(make_job(replicas={"Worker": make_replica(1, template={"spec": {"containers": []}})}))
    assert plan.actions == ()
    assert reasons(plan) == ["PyTorchJobFailedValidation"]
    assert "must have at least one container with name pytorch" in plan.events[0].message
    assert [c[0] for c in conditions_of(plan)] == ["Created"]


def test_an_invalid_job_can_still_be_suspended() -> None:
    job = make_job(replicas={"Master": make_replica(2)}, suspend=True)
    assert plan_for(job, [make_pod("Master", 0, "Running")]).actions


def test_other_spellings_of_a_replica_type_run_when_there_was_no_webhook() -> None:
    plan = plan_for(make_job(replicas={"worker": make_replica(1)}))
    assert created(plan) == ["train-worker-0"]
