"""The HorizontalPodAutoscaler of an elastic job."""

from __future__ import annotations

import copy

from tests.unit.jobs_builders import (
    NOW,
    UID,
    deleted,
    kinds_of,
    made,
    make_condition,
    make_job,
    plan_for,
    reasons,
)
from trainshed.jobs.v1.frameworks.pytorch import PyTorch
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS
from trainshed.kube.meta.times import format_time

PYTORCH = PyTorch()
METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0.5"}},
    }
]
ELASTIC = {"minReplicas": 1, "maxReplicas": 3, "metrics": METRICS}


def elastic_job(**more: object) -> Object:
    return make_job(workers=2, spec={"elasticPolicy": ELASTIC}, **more)  # type: ignore[arg-type]


def applied(job: Object, live: Object | None) -> list[Object]:
    return made(plan_for(job, hpa=live), "HorizontalPodAutoscaler")


def live_hpa() -> Object:
    """Return the autoscaler as a server stores it: defaults added, quantities canonical."""
    (hpa,) = applied(elastic_job(), None)
    live = copy.deepcopy(hpa)
    live["metadata"]["uid"] = "hpa-uid"
    live["spec"]["behavior"] = {"scaleUp": {"stabilizationWindowSeconds": 0}}
    live["spec"]["metrics"][0]["resource"]["target"]["averageValue"] = "500m"
    return live


def test_it_scales_the_workers_of_the_job() -> None:
    (hpa,) = applied(elastic_job(), None)
    assert hpa["metadata"]["name"] == "train"
    assert hpa["metadata"]["ownerReferences"][0]["uid"] == UID
    assert hpa["spec"] == {
        "scaleTargetRef": {"kind": "PyTorchJob", "name": "train", "apiVersion": "kubeflow.org/v1"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": METRICS,
    }


def test_without_metrics_there_is_none_and_an_old_one_goes() -> None:
    job = make_job(workers=2, spec={"elasticPolicy": {"minReplicas": 1}})
    assert applied(job, None) == []
    assert kinds_of(plan_for(job, hpa=live_hpa()))[0] == "DeleteHorizontalPodAutoscaler"


def test_one_is_looked_for_where_the_elastic_policy_was_taken_away() -> None:
    """It would go on scaling. A job that was never edited cannot have one, so nobody asks for it."""
    rigid = make_job(workers=2)
    assert PYTORCH.lookups(rigid) == ()
    rigid["metadata"]["generation"] = 2
    assert PYTORCH.lookups(rigid) == PYTORCH.lookups(elastic_job()) == ((HORIZONTALPODAUTOSCALERS, "train"),)
    assert kinds_of(plan_for(rigid, hpa=live_hpa()))[0] == "DeleteHorizontalPodAutoscaler"


def test_one_that_says_the_same_is_left_alone() -> None:
    assert applied(elastic_job(), live_hpa()) == []


def test_one_that_differs_is_brought_back() -> None:
    live = live_hpa()
    live["spec"]["maxReplicas"] = 9
    assert len(applied(elastic_job(), live)) == 1


def test_it_goes_while_the_job_is_suspended() -> None:
    job = elastic_job(suspend=True)
    plan = plan_for(job, hpa=live_hpa())
    assert deleted(plan, "HorizontalPodAutoscaler") == ["train"]
    (action,) = plan.actions
    assert isinstance(action, Delete) and action.uid == "hpa-uid"
    assert not action.succeeded() and not action.failed("no"), "nobody is told of an autoscaler"
    assert plan_for(job).actions == ()


def test_it_is_neither_removed_nor_made_anew_when_the_job_is_over() -> None:
    status = {
        "conditions": [make_condition("Created"), make_condition("Succeeded")],
        "completionTime": format_time(NOW),
    }
    assert plan_for(elastic_job(status=status)).actions == ()
    assert plan_for(elastic_job(status=status), hpa=live_hpa()).actions == ()


def test_one_of_somebody_else_is_left_alone() -> None:
    foreign = live_hpa()
    foreign["metadata"]["ownerReferences"] = []
    foreign["spec"]["maxReplicas"] = 9
    plan = plan_for(elastic_job(), hpa=foreign)
    assert made(plan, "HorizontalPodAutoscaler") == [] and len(made(plan, "Pod")) == 2
    assert reasons(plan) == ["ErrResourceExists"], "it is said, and the job runs"
    assert not plan_for(elastic_job(suspend=True), hpa=foreign).actions
