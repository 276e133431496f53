"""Which objects are children of a job, and which replica each is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    created,
    deleted,
    make_child,
    make_condition,
    make_job,
    make_pod,
    make_service,
    plan_for,
    read,
    reasons,
)
from trainshed.api.v1.validation import MAX_REPLICAS
from trainshed.jobs.engine.children import classify, replica_index
from trainshed.kube.meta.times import format_time


@pytest.mark.parametrize(
    ("indices", "replicas", "missing", "surplus"),
    [
        ([0, 1, 2], 3, [], []),
        ([0, 1, 2], 4, [3], []),
        ([0, 1, 2], 2, [], [2]),
        ([0, 1, 2, 4], 3, [], [4]),
        ([], 2, [0, 1], []),
        ([3], 2, [0, 1], [3]),
        ([0, 1, 2], 0, [], [0, 1, 2]),
    ],
)
def test_slots(indices: list[int], replicas: int, missing: list[int], surplus: list[int]) -> None:
    """Missing indices are created, those above the count go, and nothing is created there meanwhile."""
    job = make_job(workers=replicas)
    children = [make_pod("Worker", i, "Running") for i in indices]
    slots = classify(read(job), children, []).slots
    assert [s.index for s in slots if s.wanted and s.pod is None] == missing
    assert [s.index for s in slots if not s.wanted] == surplus
    if replicas:
        plan = plan_for(job, children)
        assert created(plan) == [f"train-worker-{i}" for i in missing]
        assert created(plan, "Service") == [f"train-worker-{i}" for i in missing]
        assert deleted(plan, "Pod") == [f"train-worker-{i}" for i in surplus]
        assert deleted(plan, "Service") == [f"train-worker-{i}" for i in surplus]


def _running(**job: Any) -> dict[str, Any]:
    """Return a job that was started and runs."""
    status = {
        "conditions": [make_condition("Created"), make_condition("Running")],
        "startTime": format_time(NOW),
    }
    return make_job(status=status, **job)


def test_scale_to_zero_through_the_scale_subresource_settles() -> None:
    """The webhook does not see the scale subresource. No pod is made for replica 0, and none is no success."""
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
    assert not plan_for(make_job(workers=0, spec=elastic)).actions
    plan = plan_for(_running(workers=0, spec=elastic), [make_pod("Worker", 0, "Running")])
    assert deleted(plan, "Pod") == deleted(plan, "Service") == ["train-worker-0"]
    assert "Succeeded" not in [c["type"] for c in (plan.status or {}).get("conditions", [])]
    assert not plan_for(_running(workers=0, spec=elastic)).actions


def test_a_job_whose_workers_are_scaled_to_zero_still_succeeds_by_its_master() -> None:
    job = _running(master=1, workers=0)
    plan = plan_for(job, [make_pod("Master", 0, "Running"), make_pod("Worker", 0, "Running")])
    assert deleted(plan, "Pod") == ["train-worker-0"] and not created(plan)
    done = plan_for(job, [make_pod("Master", 0, "Succeeded", exit_code=0)])
    assert conditions_of(done)[-1][:2] == ("Succeeded", "True")


def test_a_running_job_that_was_made_invalid_is_looked_after_but_starts_nothing() -> None:
    """Where there is no webhook, any edit gets through: limits, counts and the end go on."""
    job = _running(master=1, workers=2, activeDeadlineSeconds=60)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = {"spec": {"containers": []}}
    pods = [make_pod("Master", 0, "Running"), make_pod("Worker", 0, "Running")]
    plan = plan_for(job, pods)
    assert not plan.actions and reasons(plan) == ["PyTorchJobFailedValidation"]
    assert plan.requeue_after == 60
    late = plan_for(job, pods, now=NOW + 60)
    assert conditions_of(late)[-1][:2] == ("Failed", "True")
    pods[0] = make_pod("Master", 0, "Succeeded", exit_code=0)
    assert conditions_of(plan_for(job, pods))[-1][:2] == ("Succeeded", "True")


def test_a_running_job_that_was_made_invalid_and_suspended_does_not_resume() -> None:
    job = make_job(
        workers=0, status={"conditions": [make_condition("Suspended")], "startTime": format_time(NOW)}
    )
    assert not plan_for(job).actions
    assert ("Suspended", "False") not in [c[:2] for c in conditions_of(plan_for(job))]


def test_finished_replicas_above_the_count_are_no_success() -> None:
    """Scaled from 4 to 1 when all but the first are done: that one still works."""
    pods = [make_pod("Worker", 0, "Running")]
    pods += [make_pod("Worker", i, "Succeeded", exit_code=0) for i in (1, 2, 3)]
    plan = plan_for(_running(workers=1), pods)
    assert deleted(plan, "Pod") == [f"train-worker-{i}" for i in (1, 2, 3)]
    assert plan.status is not None
    assert "Succeeded" not in [c["type"] for c in plan.status["conditions"]]
    counts = plan.status["replicaStatuses"]["Worker"]
    assert (counts.get("active"), counts.get("succeeded")) == (1, None)


def test_an_absurd_count_costs_nothing_and_starts_nothing() -> None:
    """`kubectl scale` is not validated: all jobs would wait while 2³¹ places were listed."""
    job = _running(workers=2**31 - 1)
    assert len(classify(read(job), [], []).slots) == MAX_REPLICAS
    pods = [make_pod("Worker", 0, "Running")]
    plan = plan_for(job, pods)
    assert not plan.actions and reasons(plan) == ["PyTorchJobFailedValidation"]
    assert f"must be at most {MAX_REPLICAS}" in plan.events[0].message


@pytest.mark.parametrize("label", [None, "", "x", "-1", "1.0", "٣", " 1"])
def test_pods_without_a_decimal_index_are_left_alone(label: str | None) -> None:
    pod = make_pod("Worker", 0, "Running")
    pod["metadata"]["name"] = "stray"
    if label is None:
        del pod["metadata"]["labels"]["training.kubeflow.org/replica-index"]
    else:
        pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] = label
    assert replica_index(pod["metadata"]["labels"]) is None
    plan = plan_for(make_job(workers=1), [pod], services=[])
    assert created(plan, "Pod") == ["train-worker-0"]
    assert not deleted(plan, "Pod")


@pytest.mark.parametrize(
    "change",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{"uid": "older-job", "controller": True}]},
        {"ownerReferences": [{"uid": "job-uid"}]},
        {
            "labels": {
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "0",
            }
        },
    ],
    ids=["no owner", "an earlier job of this name", "owner that does not control", "labels of no job"],
)
def test_objects_of_others_are_no_children(change: dict[str, Any]) -> None:
    job = read(make_job(workers=1))
    pod, service = (make_child(kind, "Worker", 0, **change) for kind in ("Pod", "Service"))
    children = classify(job, [pod], [service])
    assert (children.pods, children.services) == ([], [])


def test_two_pods_in_one_slot_are_neither_counted_nor_deleted() -> None:
    twin = make_pod("Worker", 0, "Failed", name="other")
    twin["metadata"]["labels"]["training.kubeflow.org/job-name"] = "train"
    plan = plan_for(
        make_job(workers=1), [make_pod("Worker", 0, "Failed"), twin], services=[make_service("Worker", 0)]
    )
    assert not plan.actions
    assert plan.status is not None and "failed" not in plan.status["replicaStatuses"]["Worker"]
