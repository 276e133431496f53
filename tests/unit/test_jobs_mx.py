"""MXJob: the roles of a parameter server, tuners, who decides, and the words that are its own."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest

from tests.unit.jobs_builders import created_pods, deleted, env_of
from tests.unit.kind_builders import make_job_of, make_replica_of, plan_of, told
from trainshed.api.v1.mx import DEPRECATED, MXJOB
from trainshed.kube.meta.objects import Object
from trainshed.operator.objects import webhook_configuration
from trainshed.operator.webhook import review

ROLE = "training.kubeflow.org/job-role"
TRAIN: dict[str, int | None] = {"Scheduler": 1, "Server": 2, "Worker": 2}


def environments(job: Object) -> dict[str, dict[str, str]]:
    return {name: dict(env_of(pod)) for name, pod in created_pods(plan_of(MXJOB, job)).items()}


def test_environment_of_training() -> None:
    pods = created_pods(plan_of(MXJOB, make_job_of(MXJOB, TRAIN)))
    (config, *rest) = env_of(pods["train-worker-1"])
    assert config[0] == "MX_CONFIG"
    assert rest == [
        ("DMLC_PS_ROOT_PORT", "9091"),
        ("DMLC_PS_ROOT_URI", "train-scheduler-0"),
        ("DMLC_NUM_SERVER", "2"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_ROLE", "worker"),
        ("DMLC_USE_KUBERNETES", "1"),
        ("DMLC_WORKER_ID", "1"),
    ]
    for name, role in (("train-scheduler-0", "scheduler"), ("train-server-1", "server")):
        env = dict(env_of(pods[name]))
        assert env["DMLC_ROLE"] == role
        assert "DMLC_WORKER_ID" not in env


def test_the_configuration_lists_all_replicas() -> None:
    job = make_job_of(MXJOB, {"Scheduler": 1, "Worker": 2})
    port = {"name": "mxjob-port", "containerPort": 7}
    job["spec"]["mxReplicaSpecs"]["Scheduler"] = make_replica_of(MXJOB, 1, ports=[port])
    assert environments(job)["train-worker-1"]["MX_CONFIG"] == (
        '{"cluster":{"scheduler":[{"url":"train-scheduler-0","port":7}],'
        '"worker":[{"url":"train-worker-0","port":9091},{"url":"train-worker-1","port":9091}]},'
        '"labels":{"scheduler":"","worker":""},"task":{"type":"worker","index":1}}'
    )


def test_the_plan_of_a_thousand_pods_does_not_hold_their_configurations() -> None:
    job = make_job_of(MXJOB, {"Scheduler": 1, "Worker": 999})
    length = len(
        environments(make_job_of(MXJOB, {"Scheduler": 1, "Worker": 2}))["train-worker-1"]["MX_CONFIG"]
    )
    tracemalloc.start()
    try:
        plan = plan_of(MXJOB, job)
        held, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    pods = created_pods(plan)
    configuration = dict(env_of(pods["train-worker-998"]))["MX_CONFIG"]
    assert len(pods) == 1000
    assert len(configuration) > 100 * length
    assert held < 100 * len(configuration), "of which there are a thousand"


def test_tuners_have_no_scheduler_and_their_servers_have_a_key() -> None:
    job = make_job_of(MXJOB, {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1})
    template = job["spec"]["mxReplicaSpecs"]["TunerServer"]["template"]
    template["metadata"] = {"annotations": {"tuner-server-key": "1080ti"}}
    env = environments(job)["train-tuner-0"]
    config = json.loads(env["MX_CONFIG"])
    assert config["labels"] == {"tuner": "", "tunerserver": "1080ti", "tunertracker": ""}
    assert config["task"] == {"type": "tuner", "index": 0}
    assert (env["DMLC_PS_ROOT_PORT"], env["DMLC_PS_ROOT_URI"]) == ("0", "")
    assert (env["DMLC_NUM_SERVER"], env["DMLC_NUM_WORKER"], env["DMLC_ROLE"]) == ("0", "0", "tuner")


def test_every_server_has_the_role_of_master() -> None:
    pods = created_pods(plan_of(MXJOB, make_job_of(MXJOB, TRAIN)))
    masters = [name for name, pod in pods.items() if pod["metadata"]["labels"].get(ROLE) == "master"]
    assert masters == ["train-server-0", "train-server-1"]


def test_the_scheduler_decides() -> None:
    job = make_job_of(MXJOB, TRAIN)
    workers = {("Worker", 0): "Running", ("Worker", 1): "Running"}
    assert "Running" not in told(plan_of(MXJOB, job, workers))
    assert "Running" in told(plan_of(MXJOB, job, {("Scheduler", 0): "Running"}))
    assert "Succeeded" not in told(plan_of(MXJOB, job, {("Worker", 0): 0, ("Worker", 1): 0}))
    assert "Succeeded" in told(plan_of(MXJOB, job, {("Scheduler", 0): 0, **workers}))


@pytest.mark.parametrize(
    ("counts", "decides"),
    [({"Worker": 1}, True), ({"Worker": 2}, False), ({"Worker": 1, "Server": 1}, False)],
)
def test_without_a_scheduler_only_a_single_worker_decides(
    counts: dict[str, int | None], decides: bool
) -> None:
    job = make_job_of(MXJOB, counts)
    every = [(type_, index) for type_, count in counts.items() for index in range(count or 0)]
    assert ("Running" in told(plan_of(MXJOB, job, dict.fromkeys(every, "Running")))) is decides
    assert ("Succeeded" in told(plan_of(MXJOB, job, dict.fromkeys(every, 0)))) is decides


@pytest.mark.parametrize(
    ("policy", "code", "condition", "message"),
    [
        ("Never", 137, "Failed", "mxjob train is failed because 1 Worker replica(s) failed."),
        ("OnFailure", 1, "Failed", "mxjob train is failed because 1 Worker replica(s) failed."),
        ("Always", 1, "Failed", "mxjob train is failed because 1 Worker replica(s) failed."),
        ("ExitCode", 128, "Restarting", "mxjob train is restarting because 1 Worker replica(s) failed."),
        ("ExitCode", 127, "Failed", 'job "train" is failing because "Worker" replica(s) failed.'),
    ],
)
def test_a_failed_pod(policy: str, code: int, condition: str, message: str) -> None:
    """A job that has failed keeps the failed pod: upstream deletes it for a restart in the same pass."""
    job = make_job_of(MXJOB, {"Scheduler": 1, "Worker": 2}, policy)
    plan = plan_of(MXJOB, job, {("Scheduler", 0): "Running", ("Worker", 0): code, ("Worker", 1): "Running"})
    assert told(plan)[condition] == message
    assert deleted(plan, "Pod") == (["train-worker-0"] if condition == "Restarting" else [])
    if condition == "Restarting":
        assert "mxjob train is restarting because 1 Worker replica(s) failed." in [
            event.message for event in plan.events
        ]


def test_counts_have_no_selector() -> None:
    plan = plan_of(MXJOB, make_job_of(MXJOB, {"Worker": 1}), {("Worker", 0): "Running"})
    assert plan.status is not None and plan.status["replicaStatuses"] == {"Worker": {"active": 1}}


def test_other_spellings_of_the_training_types_are_let_in() -> None:
    job = make_job_of(MXJOB, {"SCHEDULER": 1, "worker": 1})
    assert MXJOB.validate(job, None).errors == ()
    assert list(created_pods(plan_of(MXJOB, job))) == ["train-scheduler-0", "train-worker-0"]
    (error,) = MXJOB.validate(make_job_of(MXJOB, {"scheduler": 2}), None).errors
    assert error.path == "spec.mxReplicaSpecs[Scheduler].replicas"


def test_tuners_are_spelled_as_they_are_declared() -> None:
    job = make_job_of(MXJOB, {"SCHEDULER": 1, "tuner": 1})
    assert set(MXJOB.defaults(job)["spec"]["mxReplicaSpecs"]) == {"Scheduler", "tuner"}


# Words.


def test_more_than_one_scheduler() -> None:
    (error,) = MXJOB.validate(make_job_of(MXJOB, {"Scheduler": 2}), None).errors
    assert error.path == "spec.mxReplicaSpecs[Scheduler].replicas"
    assert str(error).startswith("more than 1 scheduler found: ")


def test_a_stored_job_that_cannot_run_says_so_with_the_reason_of_another_kind() -> None:
    job = make_job_of(MXJOB, {"Worker": 1})
    job["spec"]["mxReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = []
    plan = plan_of(MXJOB, job)
    assert plan.actions == ()
    (event,) = plan.events
    assert (event.type, event.reason) == ("Warning", "MPIJobFailedValidation")
    assert event.message.startswith("MXJob failed validation because [MXJobSpec is not valid: ")


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_every_write_is_warned_of_the_end(operation: str) -> None:
    job = make_job_of(MXJOB, {"Worker": 1})
    gone = operation == "DELETE"
    request = {"uid": "1", "operation": operation, "object": None if gone else job, "oldObject": job}
    answer = review(MXJOB, msgspec.json.encode({"request": request}))["response"]
    assert (answer["allowed"], answer["warnings"]) == (True, list(DEPRECATED))
    assert len(DEPRECATED) == 2


def test_only_its_webhook_is_asked_about_deletions() -> None:
    hooks = webhook_configuration()["webhooks"]
    asked = [hook["name"] for hook in hooks if "DELETE" in hook["rules"][0]["operations"]]
    assert asked == [MXJOB.webhook_name]
