"""What an XGBoostJob's pods are told, how its pods are judged, and which XGBoostJobs are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import NOW, created, created_pods, deleted, env_of
from tests.unit.jobs_kinds import Builder, conditions, told
from trainshed.api.v1.xgboost import XGBOOSTJOB, default_xgboostjob, validate_xgboostjob
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.times import format_time

XGB = Builder(XGBOOSTJOB)
MAP = "spec.xgbReplicaSpecs"
RUNNING = "XGBoostJob train is running."
DONE = "XGBoostJob train is successfully completed."
JOB = {"Master": 1, "Worker": 2}


def started(*more: Object) -> Object:
    """Return the status of a job that was started."""
    return {"startTime": format_time(NOW), "conditions": [XGB.condition("Created"), *more]}


def world(*pods: tuple[str, int, str, int | None]) -> list[Object]:
    return [XGB.pod(type_, index, phase, exit_code=code) for type_, index, phase, code in pods]


# Environment.


def test_the_environment_in_order() -> None:
    pods = created_pods(XGB.plan(XGB.job(JOB)))
    assert list(pods) == ["train-master-0", "train-worker-0", "train-worker-1"]
    for rank, pod in enumerate(pods.values()):
        assert env_of(pod) == [
            ("MASTER_PORT", "9999"),
            ("MASTER_ADDR", "train-master-0"),
            ("WORLD_SIZE", "3"),
            ("RANK", str(rank)),
            ("PYTHONUNBUFFERED", "1"),
            ("WORKER_PORT", "9999"),
            ("WORKER_ADDRS", "train-worker-0,train-worker-1"),
        ]


def test_a_master_alone_has_no_workers() -> None:
    (pod,) = created_pods(XGB.plan(XGB.job({"Master": 1}))).values()
    assert [name for name, _ in env_of(pod)] == [
        "MASTER_PORT",
        "MASTER_ADDR",
        "WORLD_SIZE",
        "RANK",
        "PYTHONUNBUFFERED",
    ]


def test_each_type_has_its_own_port() -> None:
    def replica(port: int) -> Object:
        return XGB.replica(1, ports=[{"name": "xgboostjob-port", "containerPort": port}])

    job = XGB.job({"Master": replica(1001), "Worker": replica(1002)})
    for pod in created_pods(XGB.plan(job)).values():
        env = dict(env_of(pod))
        assert (env["MASTER_PORT"], env["WORKER_PORT"]) == ("1001", "1002")


def test_every_container_is_told_after_its_own_variables_and_no_init_container() -> None:
    replica = XGB.replica(1, env=[{"name": "RANK", "value": "7"}])
    replica["template"]["spec"]["containers"].append({"name": "sidecar", "image": "s:1"})
    replica["template"]["spec"]["initContainers"] = [{"name": "init", "image": "i:1"}]
    (pod,) = created_pods(XGB.plan(XGB.job({"Master": replica}))).values()
    assert env_of(pod)[0] == ("RANK", "7") and env_of(pod)[1:] == env_of(pod, 1)
    assert "env" not in pod["spec"]["initContainers"][0]


def test_the_master_alone_has_the_masters_role() -> None:
    role = "training.kubeflow.org/job-role"
    pods = created_pods(XGB.plan(XGB.job(JOB)))
    assert [n for n, p in pods.items() if p["metadata"]["labels"].get(role) == "master"] == ["train-master-0"]


# Judgement.


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([("Master", 0, "Pending", None), ("Worker", 0, "Running", None)], [("Created", "True")]),
        (
            [("Master", 0, "Running", None), ("Worker", 0, "Pending", None)],
            [("Created", "True"), ("Running", "True")],
        ),
        (
            [("Master", 0, "Running", None), ("Worker", 0, "Succeeded", 0), ("Worker", 1, "Succeeded", 0)],
            [("Created", "True"), ("Running", "True")],
        ),
        (
            [("Master", 0, "Pending", None), ("Worker", 0, "Failed", 1)],
            [("Created", "True"), ("Running", "False"), ("Failed", "True")],
        ),
        (
            [("Master", 0, "Failed", 1), ("Worker", 0, "Running", None)],
            [("Created", "True"), ("Running", "False"), ("Failed", "True")],
        ),
    ],
)
def test_what_the_pods_mean(pods: Any, expected: list[tuple[str, str]]) -> None:
    plan = XGB.plan(XGB.job(JOB), *world(*pods))
    assert [c[:2] for c in conditions(plan)] == expected


@pytest.mark.parametrize("worker", ["Running", "Failed"])
def test_success_always_says_that_it_ran(worker: str) -> None:
    """Also where nobody saw it run, and whatever the workers do."""
    plan = XGB.plan(XGB.job(JOB), *world(("Master", 0, "Succeeded", 0), ("Worker", 0, worker, None)))
    assert conditions(plan)[1:] == [("Running", "False", RUNNING), ("Succeeded", "True", DONE)]
    assert told(plan) == [
        ("Normal", "ExitedWithCode", "Pod: ns.train-master-0 exited with code 0"),
        ("Normal", "XGBoostJobSucceeded", DONE),
    ]
    assert plan.status is not None and plan.status["completionTime"] and not plan.actions


@pytest.mark.parametrize(
    ("policy", "code", "outcome"),
    [
        ("Never", 137, "Failed"),
        ("OnFailure", 137, "Failed"),
        ("Always", None, "Failed"),
        ("ExitCode", 137, "Restarting"),
        ("ExitCode", None, "Restarting"),
        ("ExitCode", 127, "Permanent"),
    ],
)
def test_a_failed_worker_by_policy_and_exit_code(policy: str, code: int | None, outcome: str) -> None:
    pods = world(
        ("Master", 0, "Running", None), ("Worker", 0, "Running", None), ("Worker", 1, "Failed", code)
    )
    plan = XGB.plan(XGB.job(JOB, policy), *pods)
    assert deleted(plan, "Pod") == (["train-worker-1"] if outcome == "Restarting" else [])
    words = [event for event in told(plan) if event[1].startswith("XGBoostJob")]
    if outcome == "Restarting":
        message = "job train is restarting because Worker replica(s) failed."
        second = "XGBoostJob train is restarting because 1 Worker replica(s) failed."
        assert conditions(plan)[1:] == [("Restarting", "True", second)]
        assert words == [("Warning", "XGBoostJobRestarting", m) for m in (message, second)]
        assert plan.counters == ("created", "restarted")
    elif outcome == "Permanent":
        message = 'job "train" is failing because "Worker" replica(s) failed.'
        assert conditions(plan)[-1] == ("Failed", "True", message)
        assert words == [("Warning", "XGBoostJobFailed", message)]
    else:
        message = "XGBoostJob train is failed because 1 Worker replica(s) failed."
        assert conditions(plan)[1:] == [("Running", "False", RUNNING), ("Failed", "True", message)]
        assert words == [("Normal", "XGBoostJobFailed", message)]
        assert plan.counters == ("created", "failed")


@pytest.mark.parametrize(
    ("policy", "outcome"), [("Never", "Failed"), ("OnFailure", "Failed"), ("ExitCode", "Restarting")]
)
def test_a_draining_worker_fails_the_job_or_restarts(policy: str, outcome: str) -> None:
    pods = [XGB.pod("Master", 0, "Running"), XGB.pod("Worker", 0, "Running", terminating=True)]
    assert conditions(XGB.plan(XGB.job({"Master": 1, "Worker": 1}, policy), *pods))[-1][0] == outcome


def test_scaling_down_does_not_fail_a_job() -> None:
    pods = world(("Master", 0, "Running", None), ("Worker", 0, "Running", None))
    going = XGB.pod("Worker", 1, "Running", terminating=True)
    plan = XGB.plan(XGB.job({"Master": 1, "Worker": 1}), *pods, going)
    assert conditions(plan)[-1][:2] == ("Running", "True")
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 1}}, "no selector"


def test_a_job_without_a_master_says_why_and_starts_nothing() -> None:
    plan = XGB.plan(XGB.job({"Worker": 1}))
    message = f"XGBoostJob failed validation because {MAP}[Master]: Required value: must be present"
    assert not plan.actions and told(plan) == [("Warning", "XGBoostJobFailedValidation", message)]


def test_a_job_deleted_at_its_time_to_live_is_told_as_a_job() -> None:
    status = {**started(XGB.condition("Failed")), "completionTime": format_time(NOW)}
    plan = XGB.plan(XGB.job(JOB, status=status, ttlSecondsAfterFinished=1), now=NOW + 1)
    (action,) = plan.actions
    assert isinstance(action, Delete) and action.resource == XGBOOSTJOB.resource
    assert [(e.reason, e.message) for e in action.told.done] == [
        ("SuccessfulDeleteJob", "Deleted job: train")
    ]


def test_suspend_and_resume() -> None:
    running = XGB.job(JOB, suspend=True, status=started(XGB.condition("Running", RUNNING)))
    stopped = XGB.plan(running, XGB.pod("Master", 0, "Running"))
    assert conditions(stopped)[1:] == [
        ("Running", "False", "XGBoostJob train is suspended."),
        ("Suspended", "True", "XGBoostJob train is suspended."),
    ]
    assert deleted(stopped, "Pod") == deleted(stopped, "Service") == ["train-master-0"]
    resumed = XGB.plan(XGB.job(JOB, suspend=False, status=stopped.status))
    assert conditions(resumed)[-1] == ("Suspended", "False", "XGBoostJob train is resumed.")
    assert not created(resumed)


# Defaults and validation.


def test_defaults() -> None:
    job = default_xgboostjob(XGB.job({"MASTER": 1, "worker": XGB.replica(None)}))
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}
    specs = job["spec"]["xgbReplicaSpecs"]
    found = {k: (v["replicas"], v["restartPolicy"]) for k, v in specs.items()}
    assert found == {"Master": (1, "Never"), "Worker": (1, "Never")}
    (container,) = specs["Worker"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "xgboostjob-port", "containerPort": 9999}]


HERE = f"{MAP}[Master].template.spec.containers"
NO_CONTAINERS = {"replicas": 1, "template": {"spec": {"containers": []}}}
MISSING = "Required value: must have at least one container with name xgboost"
NO_MASTER = f"{MAP}[Master]: Required value: must be present"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (XGB.job(JOB), []),
        (XGB.job({"Master": 1, "Worker": 0}), []),
        (XGB.job({"Master": 2}), [f"{MAP}[Master].replicas: Forbidden: must be 1"]),
        (XGB.job({"Master": XGB.replica(None)}), [f"{MAP}[Master].replicas: Forbidden: must be 1"]),
        (XGB.job({"Worker": 1}), [NO_MASTER]),
        (
            {"metadata": {"name": "a"}, "spec": {}},
            [f"{MAP}: Required value: must be required", NO_MASTER],
        ),
        (
            XGB.job({"Master": 1, "worker": 1}),
            [f'{MAP}[worker]: Unsupported value: "worker": supported values: "Master", "Worker"'],
        ),
        (
            XGB.job({"Master": NO_CONTAINERS}),
            [f"{HERE}: Required value: must be specified", f"{HERE}: {MISSING}"],
        ),
        (
            XGB.job({"Master": XGB.replica(1, image="")}),
            [f"{HERE}[0].image: Required value: must be required"],
        ),
        (XGB.job({"Master": XGB.replica(1, name="main")}), [f"{HERE}: {MISSING}"]),
        (
            XGB.job({"Master": 1}, managedBy=""),
            [
                'spec.runPolicy.managedBy: Unsupported value: "": supported values: '
                '"kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"'
            ],
        ),
    ],
)
def test_rules(job: Object, expected: list[str]) -> None:
    assert [str(error) for error in validate_xgboostjob(job, None).errors] == expected


def test_a_wrong_name_and_a_new_manager_are_refused() -> None:
    job = XGB.job({"Master": 1}, managedBy="kubeflow.org/training-operator")
    job["metadata"]["name"] = "0-1"
    found = [(e.path, e.type) for e in validate_xgboostjob(job, XGB.job({"Master": 1})).errors]
    assert found == [("metadata.name", "Invalid value"), ("spec.runPolicy.managedBy", "Invalid value")]
