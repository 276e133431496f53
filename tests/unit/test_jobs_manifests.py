"""Pods and services: labels, owners, what is copied from the template and what is not."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import (
    UID,
    created_pods,
    kinds_of,
    made,
    make_job,
    make_replica,
    make_template,
    plan_for,
)
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.resources import PODS

CURRENT = {
    "training.kubeflow.org/operator-name": "pytorchjob-controller",
    "training.kubeflow.org/job-name": "train",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "0",
}
OWNER = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "name": "train",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}


def worker_pod(template: Object, options: OperatorOptions | None = None) -> Object:
    job = make_job(replicas={"Worker": make_replica(1, template=template)})
    return created_pods(plan_for(job, options=options))["train-worker-0"]


def test_the_pod_is_the_template_under_our_labels() -> None:
    template = make_template()
    template["metadata"] = {
        "name": "ignored",
        "namespace": "ignored",
        "labels": {"team": "vision", "training.kubeflow.org/job-name": "spoofed"},
        "annotations": {"a": "b"},
        "finalizers": ["example.com/f"],
    }
    template["spec"] |= {"nodeSelector": {"disk": "ssd"}, "schedulerName": "mine"}
    pod = worker_pod(template, OperatorOptions(legacy_labels=False))
    assert pod["metadata"] == {
        "name": "train-worker-0",
        "namespace": "ns",
        "labels": {"team": "vision", **CURRENT, "training.kubeflow.org/job-role": "master"},
        "annotations": {"a": "b"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [OWNER],
    }
    assert (pod["spec"]["nodeSelector"], pod["spec"]["schedulerName"]) == ({"disk": "ssd"}, "mine")
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert "hostname" not in pod["spec"]


def test_legacy_labels_stand_beside_the_current_ones_and_below_the_template() -> None:
    template = make_template()
    without = worker_pod(template, OperatorOptions(legacy_labels=False))
    assert not {"job-name", "replica-type"} & set(without["metadata"]["labels"])
    labels = worker_pod(template)["metadata"]["labels"]
    assert labels.items() >= {**CURRENT, "job-name": "train", "replica-type": "worker"}.items()
    assert labels.items() >= {"replica-index": "0", "job-role": "master"}.items()
    template["metadata"] = {"labels": {"job-name": "mine"}}
    assert worker_pod(template)["metadata"]["labels"]["job-name"] == "mine"


@pytest.mark.parametrize("policy", ["Never", "Always", None])
def test_a_restart_policy_in_the_template_is_overridden_with_a_warning(policy: str | None) -> None:
    template = make_template()
    if policy:
        template["spec"]["restartPolicy"] = policy
    plan = plan_for(make_job(replicas={"Worker": make_replica(1, "ExitCode", template=template)}))
    (action,) = (a for a in plan.actions if isinstance(a, Create) and a.resource == PODS)
    assert action.object["spec"]["restartPolicy"] == "Never"
    reasons = [event.reason for event in action.succeeded()]
    assert reasons == [*(["SetPodTemplateRestartPolicy"] if policy else []), "SuccessfulCreatePod"]


def test_the_service_is_headless_and_selects_one_replica() -> None:
    (service,) = made(plan_for(make_job(workers=1)), "Service")
    assert service == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "train-worker-0",
            "namespace": "ns",
            "labels": CURRENT,
            "ownerReferences": [OWNER],
        },
        "spec": {
            "clusterIP": "None",
            "selector": CURRENT,
            "ports": [{"name": "pytorchjob-port", "port": 23456}],
        },
    }


def test_service_ports_are_sorted_by_name_and_unnamed_ones_collapse() -> None:
    ports = [
        {"containerPort": 1},
        {"name": "z", "containerPort": 2, "protocol": "UDP"},
        {"containerPort": 3},
        {"name": "pytorchjob-port", "containerPort": 4},
    ]
    job = make_job(replicas={"Worker": make_replica(1, template=make_template(ports=ports))})
    (service,) = made(plan_for(job), "Service")
    assert service["spec"]["ports"] == [
        {"port": 3},
        {"name": "pytorchjob-port", "port": 4},
        {"name": "z", "port": 2},
    ]


def test_children_are_made_type_by_type_master_first_pods_before_services() -> None:
    plan = plan_for(make_job(replicas={"Worker": make_replica(2), "Master": make_replica(1)}))
    names_made = [a.object["metadata"]["name"] for a in plan.actions if isinstance(a, Create)]
    workers = ["train-worker-0", "train-worker-1"]
    assert list(zip(kinds_of(plan), names_made)) == [
        (kind, name)
        for names in (["train-master-0"], workers)
        for kind in ("CreatePod", "CreateService")
        for name in names
    ]
