"""JAXJob: the world that `jax.distributed` reads, and what a failed process means."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import created, created_pods, deleted, env_of
from tests.unit.kind_builders import make_job_of, make_replica_of, plan_of, told
from trainshed.api.v1.jax import JAXJOB

ROLE = "training.kubeflow.org/job-role"


def test_environment() -> None:
    pods = created_pods(plan_of(JAXJOB, make_job_of(JAXJOB, {"Worker": 3})))
    for index, name in enumerate(["train-worker-0", "train-worker-1", "train-worker-2"]):
        assert env_of(pods[name]) == [
            ("PYTHONUNBUFFERED", "1"),
            ("COORDINATOR_PORT", "6666"),
            ("COORDINATOR_ADDRESS", "train-worker-0"),
            ("NUM_PROCESSES", "3"),
            ("PROCESS_ID", str(index)),
        ]


def test_the_port_is_that_of_the_training_container() -> None:
    job = make_job_of(JAXJOB, {})
    port = {"name": "jaxjob-port", "containerPort": 1234}
    job["spec"]["jaxReplicaSpecs"]["Worker"] = make_replica_of(JAXJOB, 1, ports=[port])
    (pod,) = created_pods(plan_of(JAXJOB, job)).values()
    assert ("COORDINATOR_PORT", "1234") in env_of(pod)


def test_the_first_worker_speaks_for_the_job() -> None:
    pods = created_pods(plan_of(JAXJOB, make_job_of(JAXJOB, {"Worker": 2})))
    assert [pod["metadata"]["labels"].get(ROLE) for pod in pods.values()] == ["master", None]


def test_all_workers_have_to_end_well() -> None:
    job = make_job_of(JAXJOB, {"Worker": 2})
    assert "Succeeded" not in told(plan_of(JAXJOB, job, {("Worker", 0): 0, ("Worker", 1): "Running"}))
    assert "Succeeded" in told(plan_of(JAXJOB, job, {("Worker", 0): 0, ("Worker", 1): 0}))


@pytest.mark.parametrize(
    ("policy", "code", "condition", "message"),
    [
        ("Never", 1, "Failed", "JAXJob train is failed because 1 Worker replica(s) failed."),
        ("Never", 137, "Failed", "JAXJob train is failed because 1 Worker replica(s) failed."),
        ("OnFailure", 1, "Restarting", "JAXJob train is restarting because 1 Worker replica(s) failed."),
        ("Always", 1, "Restarting", "JAXJob train is restarting because 1 Worker replica(s) failed."),
        ("ExitCode", 128, "Restarting", "JAXJob train is restarting because 1 Worker replica(s) failed."),
        ("ExitCode", 127, "Failed", 'job "train" is failing because "Worker" replica(s) failed.'),
    ],
)
def test_a_failed_worker(policy: str, code: int, condition: str, message: str) -> None:
    job = make_job_of(JAXJOB, {"Worker": 2}, policy)
    plan = plan_of(JAXJOB, job, {("Worker", 0): "Running", ("Worker", 1): code})
    assert told(plan)[condition] == message
    assert deleted(plan, "Pod") == (["train-worker-1"] if condition == "Restarting" else [])
    assert created(plan) == []


def test_counts_have_the_selector_of_autoscalers() -> None:
    plan = plan_of(JAXJOB, make_job_of(JAXJOB, {"Worker": 1}), {("Worker", 0): "Running"})
    assert plan.status is not None
    assert plan.status["replicaStatuses"]["Worker"] == {
        "active": 1,
        "selector": "training.kubeflow.org/job-name=train,training.kubeflow.org/operator-name=jaxjob-controller,"
        "training.kubeflow.org/replica-type=worker",
    }
