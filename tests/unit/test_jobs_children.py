"""Which objects are children of a job, and which replica each is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import (
    created,
    deleted,
    make_child,
    make_job,
    make_pod,
    make_service,
    plan_for,
    read,
)
from trainshed.jobs.engine.children import classify, replica_index


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


def test_scale_to_zero_through_the_scale_subresource_settles() -> None:
    """The webhook does not see the scale subresource. No pod is made for replica 0, and none is no success."""
    job = make_job(workers=0, spec={"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}})
    plan = plan_for(job)
    assert not plan.actions
    plan = plan_for(make_job(workers=0), [make_pod("Worker", 0, "Running")])
    assert "Succeeded" not in [c["type"] for c in (plan.status or {}).get("conditions", [])]


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
