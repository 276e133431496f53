"""PaddleJob: where launchers meet, who serves and who trains, and what a failed pod means."""

from __future__ import annotations

import pytest

from tests.unit.jobs_builders import created_pods, deleted, env_of, kinds_of
from tests.unit.kind_builders import make_job_of, make_replica_of, plan_of, told
from trainshed.api.v1.paddle import ELASTIC_IGNORED, PADDLEJOB
from trainshed.kube.meta.objects import Object

ROLE = "training.kubeflow.org/job-role"
COMMON = [("PYTHONUNBUFFERED", "1"), ("PADDLE_JOB_ID", "train")]
OWN = ("POD_IP_DUMMY", "")


def environments(job: Object) -> dict[str, list[tuple[str, str]]]:
    """Return the variables of every pod, which all begin in the same way, after that."""
    found = {name: env_of(pod) for name, pod in created_pods(plan_of(PADDLEJOB, job)).items()}
    assert all(env[:2] == COMMON for env in found.values())
    return {name: env[2:] for name, env in found.items()}


def test_workers_meet_at_the_first_of_them() -> None:
    assert environments(make_job_of(PADDLEJOB, {"Worker": 3})) == {
        "train-worker-0": [("PADDLE_NNODES", "3"), OWN, ("PADDLE_MASTER", "$(POD_IP_DUMMY):36543")],
        "train-worker-1": [("PADDLE_NNODES", "3"), ("PADDLE_MASTER", "train-worker-0:36543")],
        "train-worker-2": [("PADDLE_NNODES", "3"), ("PADDLE_MASTER", "train-worker-0:36543")],
    }


def test_with_a_master_all_meet_there_and_have_a_role() -> None:
    there, server = ("PADDLE_MASTER", "train-master-0:36543"), ("PADDLE_SERVER_NUM", "1")
    assert environments(make_job_of(PADDLEJOB, {"Master": 2, "Worker": 1})) == {
        "train-master-0": [("PADDLE_NNODES", "3"), OWN, ("PADDLE_MASTER", "$(POD_IP_DUMMY):36543"), server],
        "train-master-1": [("PADDLE_NNODES", "3"), there, server],
        "train-worker-0": [("PADDLE_NNODES", "3"), there, ("PADDLE_TRAINER_NUM", "1")],
    }


def test_the_own_address_is_read_from_the_status_of_the_pod() -> None:
    pods = created_pods(plan_of(PADDLEJOB, make_job_of(PADDLEJOB, {"Worker": 1})))
    assert {
        "name": "POD_IP_DUMMY",
        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    } in pods["train-worker-0"]["spec"]["containers"][0]["env"]


@pytest.mark.parametrize("type_", ["Master", "Worker"])
def test_the_port_is_that_of_the_type_where_they_meet(type_: str) -> None:
    job = make_job_of(PADDLEJOB, {"Master": 1, "Worker": 2} if type_ == "Master" else {"Worker": 2})
    port = {"name": "master", "containerPort": 9}
    job["spec"]["paddleReplicaSpecs"][type_] = make_replica_of(PADDLEJOB, 1, ports=[port])
    if type_ == "Master":
        assert ("PADDLE_MASTER", "train-master-0:9") in environments(job)["train-worker-1"]
    else:
        assert ("PADDLE_MASTER", "$(POD_IP_DUMMY):9") in environments(job)["train-worker-0"]


@pytest.mark.parametrize(
    ("counts", "roles"),
    [
        ({"Master": 2, "Worker": 1}, ["master", "master", None]),
        ({"Worker": 2}, ["master", None]),
    ],
)
def test_who_speaks_for_the_job(counts: dict[str, int | None], roles: list[str | None]) -> None:
    """A client that asks for the logs of the master gets those of worker 0 where there is none."""
    pods = created_pods(plan_of(PADDLEJOB, make_job_of(PADDLEJOB, counts)))
    assert [pod["metadata"]["labels"].get(ROLE) for pod in pods.values()] == roles


def test_the_master_decides() -> None:
    job = make_job_of(PADDLEJOB, {"Master": 1, "Worker": 2})
    running = plan_of(PADDLEJOB, job, {("Master", 0): "Running", ("Worker", 0): 0, ("Worker", 1): 0})
    assert told(running)["Running"] == "PaddleJob train is running."
    waiting = plan_of(PADDLEJOB, job, {("Master", 0): "Pending", ("Worker", 0): "Running"})
    assert "Running" not in told(waiting)
    done = plan_of(PADDLEJOB, job, {("Master", 0): 0, ("Worker", 0): "Running"})
    assert told(done)["Succeeded"] == "PaddleJob train is successfully completed."


def test_without_a_master_all_workers_have_to_end_well() -> None:
    job = make_job_of(PADDLEJOB, {"Worker": 2}, spec={"elasticPolicy": {"minReplicas": 1}})
    assert "Succeeded" not in told(plan_of(PADDLEJOB, job, {("Worker", 0): 0, ("Worker", 1): "Running"}))
    assert "Succeeded" in told(plan_of(PADDLEJOB, job, {("Worker", 0): 0, ("Worker", 1): 0}))


@pytest.mark.parametrize(
    ("policy", "code", "condition", "message"),
    [
        ("Never", 1, "Failed", "PaddleJob train is failed because 1 Worker replica(s) failed."),
        ("OnFailure", 1, "Restarting", "PaddleJob train is restarting because 1 Worker replica(s) failed."),
        ("Always", 137, "Restarting", "PaddleJob train is restarting because 1 Worker replica(s) failed."),
        ("ExitCode", 128, "Restarting", "PaddleJob train is restarting because 1 Worker replica(s) failed."),
        ("ExitCode", 127, "Failed", 'job "train" is failing because "Worker" replica(s) failed.'),
    ],
)
def test_a_failed_worker(policy: str, code: int, condition: str, message: str) -> None:
    job = make_job_of(PADDLEJOB, {"Master": 1, "Worker": 1}, policy)
    plan = plan_of(PADDLEJOB, job, {("Master", 0): "Running", ("Worker", 0): code})
    assert told(plan)[condition] == message
    assert deleted(plan, "Pod") == (["train-worker-0"] if condition == "Restarting" else [])


@pytest.mark.parametrize(
    ("policy", "bounds"), [({}, (3, 3)), ({"minReplicas": 1}, (1, 1)), ({"maxReplicas": 5}, (5, 5))]
)
def test_elastic_bounds_have_defaults(policy: Object, bounds: tuple[int, int]) -> None:
    job = make_job_of(PADDLEJOB, {"Worker": 3}, spec={"elasticPolicy": policy})
    elastic = PADDLEJOB.defaults(job)["spec"]["elasticPolicy"]
    assert (elastic["minReplicas"], elastic["maxReplicas"]) == bounds


def test_an_elastic_policy_does_nothing_and_says_so() -> None:
    """Without workers it ended upstream's operator."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    for counts in ({"Worker": 2}, {"Master": 1}):
        job = make_job_of(PADDLEJOB, counts, spec={"elasticPolicy": {"metrics": [metric]}})
        verdict = PADDLEJOB.validate(job, None)
        assert (verdict.errors, verdict.warnings) == ((), (ELASTIC_IGNORED,))
        assert set(kinds_of(plan_of(PADDLEJOB, job))) == {"CreatePod", "CreateService"}


def test_any_number_of_masters_may_be_asked_for() -> None:
    for count in (None, 0, 2):
        assert PADDLEJOB.validate(make_job_of(PADDLEJOB, {"Master": count}), None).errors == ()
