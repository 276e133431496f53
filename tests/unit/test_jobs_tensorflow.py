"""What a TFJob's pods are told, how its pods are judged, and which TFJobs are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.jobs_builders import NOW, created, created_pods, deleted, env_of
from tests.unit.jobs_kinds import Builder, conditions, told
from trainshed.api.v1.tensorflow import TFJOB, default_tfjob, validate_tfjob
from trainshed.api.verdict import text
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.frameworks.tensorflow import TensorFlowOptions
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.times import format_time
from trainshed.operator.flags import parse

TF = Builder(TFJOB)
MAP = "spec.tfReplicaSpecs"
RUNNING = "TFJob ns/train is running."
DONE = "TFJob ns/train successfully completed."
RESTARTING = "job train is restarting because Worker replica(s) failed."


def started(*more: Object) -> Object:
    """Return the status of a job that was started."""
    return {"startTime": format_time(NOW), "conditions": [TF.condition("Created"), *more]}


def configs(job: Object, options: OperatorOptions | None = None) -> dict[str, str | None]:
    """Return TF_CONFIG of each pod of a new job, None where it has none."""
    pods = created_pods(TF.plan(job, options=options))
    return {
        name: dict(env_of(pod)).get("TF_CONFIG") if "env" in pod["spec"]["containers"][0] else None
        for name, pod in pods.items()
    }


# Environment.


def test_the_dense_cluster_names_every_replica_to_every_pod_to_the_letter() -> None:
    found = configs(TF.job({"Worker": 2, "PS": 1, "Chief": 1, "Evaluator": 1}))
    assert list(found) == [f"train-{r}" for r in ("chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1")]
    cluster = (
        '{"cluster":{"chief":["train-chief-0.ns.svc:2222"],"evaluator":["train-evaluator-0.ns.svc:2222"],'
        '"ps":["train-ps-0.ns.svc:2222"],'
        '"worker":["train-worker-0.ns.svc:2222","train-worker-1.ns.svc:2222"]},'
    )
    assert found["train-worker-1"] == cluster + '"task":{"type":"worker","index":1},"environment":"cloud"}'
    assert found["train-chief-0"] == cluster + '"task":{"type":"chief","index":0},"environment":"cloud"}'


@pytest.mark.parametrize(
    ("replicas", "distributed"),
    [
        ({"Worker": 1}, False),
        ({"PS": 1}, False),
        ({"Worker": 1, "PS": 1}, True),
        ({"Chief": 1, "Worker": 1}, True),
        ({"Worker": 2}, True),
        ({"Worker": 1, "Helper": 1}, False),
    ],
)
def test_a_job_of_one_pod_has_nobody_to_meet(replicas: dict[str, int], distributed: bool) -> None:
    for dynamic in (False, True):
        found = configs(TF.job(replicas, spec={"enableDynamicWorker": dynamic}))
        assert {config is not None for config in found.values()} == {distributed}


@pytest.mark.parametrize(
    ("replicas", "pod", "cluster"),
    [
        (
            {"Worker": 2, "PS": 2},
            "worker-1",
            {
                "worker": {"1": "train-worker-1.ns.svc:2222"},
                "ps": ["train-ps-0.ns.svc:2222", "train-ps-1.ns.svc:2222"],
            },
        ),
        ({"Worker": 2, "PS": 2}, "ps-1", {"worker": {}, "ps": ["train-ps-1.ns.svc:2222"]}),
        ({"Worker": 2}, "worker-0", {"worker": {"0": "train-worker-0.ns.svc:2222"}, "ps": None}),
        ({"Worker": 2, "Chief": 1}, "chief-0", {"worker": {}, "ps": []}),
        ({"Worker": 2, "Evaluator": 1}, "evaluator-0", {"worker": {}, "ps": []}),
    ],
)
def test_the_sparse_cluster_of_dynamic_workers(replicas: dict[str, int], pod: str, cluster: Object) -> None:
    found = configs(TF.job(replicas, spec={"enableDynamicWorker": True}))[f"train-{pod}"]
    role, _, index = pod.partition("-")
    expected = {"cluster": cluster, "task": {"type": role, "index": int(index)}}
    assert found == json.dumps(expected, separators=(",", ":"))


def test_only_the_first_container_called_tensorflow_is_told_and_after_its_own_variables() -> None:
    replica = TF.replica(2, env=[{"name": "TF_CONFIG", "value": "mine"}])
    replica["template"]["spec"]["containers"].insert(0, {"name": "sidecar", "image": "s:1"})
    replica["template"]["spec"]["initContainers"] = [{"name": "tensorflow", "image": "i:1"}]
    pod = created_pods(TF.plan(TF.job({"Worker": replica})))["train-worker-0"]
    assert "env" not in pod["spec"]["containers"][0] and "env" not in pod["spec"]["initContainers"][0]
    assert [name for name, _ in env_of(pod, 1)] == ["TF_CONFIG", "TF_CONFIG"]
    assert env_of(pod, 1)[0] == ("TF_CONFIG", "mine")


def test_each_type_has_its_own_port() -> None:
    ps = TF.replica(1, ports=[{"name": "tfjob-port", "containerPort": 4711}])
    config = json.loads(configs(TF.job({"Worker": 1, "PS": ps}))["train-worker-0"] or "")
    assert config["cluster"] == {"ps": ["train-ps-0.ns.svc:4711"], "worker": ["train-worker-0.ns.svc:2222"]}


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_domain_of_the_cluster_comes_from_the_operators_environment(dynamic: bool) -> None:
    job = TF.job({"Worker": 2, "PS": 1}, spec={"enableDynamicWorker": dynamic})
    options = parse([], {"CUSTOM_CLUSTER_DOMAIN": "cluster.local"}).jobs
    assert '"ps":["train-ps-0.ns.svc.cluster.local:2222"]' in (configs(job, options)["train-worker-0"] or "")
    flags = parse(["--tf-cluster-domain=a.b"], {"CUSTOM_CLUSTER_DOMAIN": "c"})
    assert flags.jobs.by_kind["TFJob"] == TensorFlowOptions(domain="a.b")


# Which pod speaks for the job.


@pytest.mark.parametrize(
    ("replicas", "masters"),
    [
        ({"Worker": 2, "PS": 1}, ["train-worker-0"]),
        ({"Worker": 2, "Chief": 1}, ["train-chief-0"]),
        ({"Worker": 2, "Master": 1}, ["train-master-0"]),
        ({"Worker": 1, "Chief": 2}, ["train-chief-0", "train-chief-1"]),
        ({"PS": 1, "Evaluator": 1}, []),
    ],
)
def test_the_master_role(replicas: dict[str, int], masters: list[str]) -> None:
    pods = created_pods(TF.plan(TF.job(replicas)))
    role = "training.kubeflow.org/job-role"
    assert [n for n, pod in pods.items() if pod["metadata"]["labels"].get(role) == "master"] == masters


# Judgement.

W0_DONE = ("Worker", 0, "Succeeded", 0)


def world(*pods: tuple[str, int, str, int | None]) -> list[Object]:
    return [TF.pod(type_, index, phase, exit_code=code) for type_, index, phase, code in pods]


@pytest.mark.parametrize(
    ("replicas", "spec", "pods", "last"),
    [
        ({"Worker": 2}, {}, [("Worker", 0, "Pending", None), ("Worker", 1, "Pending", None)], "Created"),
        ({"Worker": 2}, {}, [("Worker", 0, "Pending", None), ("Worker", 1, "Running", None)], "Running"),
        ({"Worker": 2}, {}, [W0_DONE, ("Worker", 1, "Running", None)], "Succeeded"),
        (
            {"Worker": 2},
            {"successPolicy": "AllWorkers"},
            [W0_DONE, ("Worker", 1, "Running", None)],
            "Running",
        ),
        ({"Worker": 2}, {"successPolicy": "Mine"}, [W0_DONE, ("Worker", 1, "Running", None)], "Succeeded"),
        (
            {"Worker": 2},
            {"successPolicy": "AllWorkers"},
            [W0_DONE, ("Worker", 1, "Succeeded", 0)],
            "Succeeded",
        ),
        # Phase and exit code both: an evicted sidecar, a pod without statuses.
        ({"Worker": 2}, {}, [("Worker", 0, "Succeeded", None), ("Worker", 1, "Running", None)], "Running"),
        ({"Worker": 2}, {}, [("Worker", 0, "Running", 0), ("Worker", 1, "Running", None)], "Running"),
        ({"Worker": 2}, {}, [("Worker", 0, "Running", None), ("Worker", 1, "Succeeded", 0)], "Running"),
        # A chief decides alone.
        ({"Chief": 1, "Worker": 1}, {}, [("Chief", 0, "Running", None), W0_DONE], "Running"),
        (
            {"Chief": 1, "Worker": 1},
            {},
            [("Chief", 0, "Pending", None), ("Worker", 0, "Running", None)],
            "Created",
        ),
        (
            {"Chief": 1, "Worker": 1},
            {},
            [("Chief", 0, "Succeeded", 0), ("Worker", 0, "Running", None)],
            "Succeeded",
        ),
        (
            {"Master": 1, "Worker": 1},
            {},
            [("Master", 0, "Succeeded", 0), ("Worker", 0, "Running", None)],
            "Succeeded",
        ),
        # Nobody waits for parameter servers and evaluators, and they end nothing.
        (
            {"Worker": 1, "PS": 1, "Evaluator": 1},
            {},
            [W0_DONE, ("PS", 0, "Running", None), ("Evaluator", 0, "Running", None)],
            "Succeeded",
        ),
        ({"Worker": 1, "PS": 1}, {}, [("Worker", 0, "Pending", None), ("PS", 0, "Running", None)], "Created"),
        (
            {"PS": 1, "Evaluator": 1},
            {},
            [("PS", 0, "Succeeded", 0), ("Evaluator", 0, "Succeeded", 0)],
            "Created",
        ),
        # Any failure counts, in whichever type, but those of dynamic workers.
        (
            {"Chief": 1, "Worker": 1},
            {},
            [("Chief", 0, "Failed", 1), ("Worker", 0, "Running", None)],
            "Failed",
        ),
        ({"Worker": 1, "PS": 1}, {}, [("Worker", 0, "Running", None), ("PS", 0, "Failed", 1)], "Failed"),
        (
            {"Worker": 1, "Evaluator": 1},
            {},
            [("Worker", 0, "Running", None), ("Evaluator", 0, "Failed", 1)],
            "Failed",
        ),
        (
            {"PS": 1, "Evaluator": 1},
            {},
            [("PS", 0, "Failed", 1), ("Evaluator", 0, "Running", None)],
            "Failed",
        ),
        (
            {"Worker": 2},
            {"enableDynamicWorker": True},
            [("Worker", 0, "Running", None), ("Worker", 1, "Failed", 1)],
            "Running",
        ),
        (
            {"Worker": 1, "PS": 1},
            {"enableDynamicWorker": True},
            [("Worker", 0, "Running", None), ("PS", 0, "Failed", 1)],
            "Failed",
        ),
        # Success is judged first.
        ({"Worker": 2}, {}, [W0_DONE, ("Worker", 1, "Failed", 1)], "Succeeded"),
    ],
)
def test_what_the_pods_mean(replicas: dict[str, int], spec: Object, pods: Any, last: str) -> None:
    plan = TF.plan(TF.job(replicas, "Never", spec=spec), *world(*pods))
    assert conditions(plan)[-1][:2] == (last, "True")
    if last in ("Succeeded", "Failed"):
        assert ("Running", "True") not in [c[:2] for c in conditions(plan)]
        assert plan.status is not None and plan.status["completionTime"]


def test_the_words_of_success() -> None:
    job = TF.job({"Worker": 2}, status=started(TF.condition("Running", RUNNING)))
    plan = TF.plan(job, *world(W0_DONE, ("Worker", 1, "Running", None)))
    assert conditions(plan)[1:] == [("Running", "False", RUNNING), ("Succeeded", "True", DONE)]
    assert told(plan) == [
        ("Normal", "ExitedWithCode", "Pod: ns.train-worker-0 exited with code 0"),
        ("Normal", "TFJobSucceeded", DONE),
    ]
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Worker": {"active": 1, "succeeded": 1}}, "and no selector"


def test_the_words_of_a_failure() -> None:
    plan = TF.plan(
        TF.job({"Worker": 1, "PS": 2}), *world(("Worker", 0, "Running", None), ("PS", 1, "Failed", 3))
    )
    message = "TFJob ns/train has failed because 1 PS replica(s) failed."
    assert conditions(plan)[1:] == [("Running", "False", RUNNING), ("Failed", "True", message)]
    assert told(plan)[-1] == ("Normal", "TFJobFailed", message)
    assert plan.counters == ("created", "failed")


def test_a_draining_worker_fails_the_job_whatever_its_policy() -> None:
    pods = [TF.pod("Worker", 0, "Running"), TF.pod("Worker", 1, "Running", terminating=True)]
    plan = TF.plan(TF.job({"Worker": 2}, "OnFailure"), *pods)
    assert conditions(plan)[-1] == (
        "Failed",
        "True",
        "TFJob ns/train has failed because 1 Worker replica(s) failed.",
    )


@pytest.mark.parametrize(
    ("policy", "code", "outcome"),
    [
        ("Never", 137, "Failed"),
        ("OnFailure", 1, "Restarting"),
        ("Always", 1, "Restarting"),
        ("ExitCode", 130, "Restarting"),
        ("ExitCode", None, "Restarting"),
        ("ExitCode", 127, "Failed"),
        ("ExitCode", 1, "Failed"),
    ],
)
def test_a_failed_worker_by_policy_and_exit_code(policy: str, code: int | None, outcome: str) -> None:
    pods = world(("Worker", 0, "Running", None), ("Worker", 1, "Failed", code))
    plan = TF.plan(TF.job({"Worker": 2}, policy), *pods)
    assert conditions(plan)[-1][:2] == (outcome, "True")
    assert deleted(plan, "Pod") == (["train-worker-1"] if outcome == "Restarting" else [])
    if outcome == "Restarting":
        assert conditions(plan)[-1][2] == RESTARTING
        assert [e for e in told(plan) if e[1] == "TFJobRestarting"] == [
            ("Warning", "TFJobRestarting", RESTARTING)
        ]
        assert plan.counters == ("created", "restarted")
    elif policy == "ExitCode":
        message = 'job "train" is failing because "Worker" replica(s) failed.'
        assert told(plan)[-1] == ("Warning", "TFJobFailed", message) and conditions(plan)[-1][2] == message


def test_a_restart_says_so_once_and_is_over_when_nothing_has_failed() -> None:
    restarting = TF.condition("Restarting", RESTARTING)
    status = {**started(restarting), "replicaStatuses": {"Worker": {"active": 1, "failed": 1}}}
    job = TF.job({"Worker": 2}, "ExitCode", status=status)
    going = TF.pod("Worker", 1, "Failed", exit_code=137, terminating=True)
    held = TF.plan(job, TF.pod("Worker", 0, "Running"), going)
    assert (held.status, held.actions, told(held)) == (None, (), [])
    over = TF.plan(job, TF.pod("Worker", 0, "Running"), TF.pod("Worker", 1, "Running"))
    assert conditions(over)[1:] == [("Running", "True", RUNNING)]


def test_a_restart_hides_the_failure_of_another_type() -> None:
    """In the pass that restarts, and as long as that failure is there."""
    worker, ps = TF.replica(1, "ExitCode"), TF.replica(1, "Never")
    pods = world(("Worker", 0, "Failed", 137), ("PS", 0, "Failed", 1))
    plan = TF.plan(TF.job({"Worker": worker, "PS": ps}), *pods)
    assert conditions(plan)[1:] == [("Restarting", "True", RESTARTING)]
    status = {**started(TF.condition("Restarting", RESTARTING))}
    job = TF.job({"Worker": worker, "PS": ps}, status=status)
    later = TF.plan(job, *world(("Worker", 0, "Running", None), ("PS", 0, "Failed", 1)))
    assert conditions(later)[1:] == [("Restarting", "True", RESTARTING)]


def test_dynamic_workers_are_scaled_down_and_up() -> None:
    spec = {"enableDynamicWorker": True}
    pods = world(*(("Worker", i, "Running", None) for i in (0, 1, 2)))
    down = TF.plan(TF.job({"Worker": 2, "PS": 0}, spec=spec), *pods)
    assert deleted(down, "Pod") == ["train-worker-2"] and not created(down)
    up = TF.plan(TF.job({"Worker": 3}, spec=spec), pods[0])
    assert created(up) == created(up, "Service") == ["train-worker-1", "train-worker-2"]


def test_scaling_down_does_not_fail_a_job() -> None:
    pods = [TF.pod("Worker", 0, "Running"), TF.pod("Worker", 1, "Running", terminating=True)]
    plan = TF.plan(TF.job({"Worker": 1}), *pods)
    assert conditions(plan)[-1][:2] == ("Running", "True")


def test_no_replicas_is_waiting_not_success() -> None:
    plan = TF.plan(TF.job({"Worker": 0, "PS": 1}), TF.pod("PS", 0, "Running"))
    assert conditions(plan)[-1][0] == "Created"


def test_other_replica_types_make_no_pods() -> None:
    assert created(TF.plan(TF.job({"Worker": 1, "Helper": 2}))) == ["train-worker-0"]


def test_a_job_deleted_at_its_time_to_live_is_told_as_a_job() -> None:
    status = {**started(TF.condition("Succeeded", DONE)), "completionTime": format_time(NOW)}
    plan = TF.plan(TF.job({"Worker": 1}, status=status, ttlSecondsAfterFinished=1), now=NOW + 1)
    (action,) = plan.actions
    assert isinstance(action, Delete) and action.resource == TFJOB.resource
    assert [(e.reason, e.message) for e in action.told.done] == [
        ("SuccessfulDeleteJob", "Deleted job: train")
    ]
    assert action.counter == "deleted"


def test_suspend_and_resume() -> None:
    suspended = TF.plan(TF.job({"Worker": 1}, suspend=True))
    assert conditions(suspended) == [
        ("Created", "True", "TFJob train is created."),
        ("Suspended", "True", "TFJob train is suspended."),
    ]
    assert not suspended.actions and suspended.status is not None and "startTime" not in suspended.status
    running = TF.job({"Worker": 1}, suspend=True, status=started(TF.condition("Running", RUNNING)))
    stopped = TF.plan(running, TF.pod("Worker", 0, "Running"))
    assert conditions(stopped)[1:] == [
        ("Running", "False", "TFJob train is suspended."),
        ("Suspended", "True", "TFJob train is suspended."),
    ]
    assert deleted(stopped, "Pod") == deleted(stopped, "Service") == ["train-worker-0"]
    resumed = TF.plan(TF.job({"Worker": 1}, suspend=False, status=stopped.status))
    assert conditions(resumed)[-1] == ("Suspended", "False", "TFJob train is resumed.")
    assert told(resumed) == [("Normal", "TFJobResumed", "TFJob train is resumed.")]


# Defaults and validation.


def test_defaults() -> None:
    job = default_tfjob(TF.job({"WORKER": TF.replica(None), "evaluator": TF.replica(2, "Always")}))
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "None"} and job["spec"]["successPolicy"] == ""
    specs = job["spec"]["tfReplicaSpecs"]
    assert {k: (v["replicas"], v["restartPolicy"]) for k, v in specs.items()} == {
        "Worker": (1, "Never"),
        "Evaluator": (2, "Always"),
    }
    (container,) = specs["Worker"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
    assert default_tfjob(job) == job


def errors(job: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in validate_tfjob(job, old).errors]


def with_container(**container: Any) -> Object:
    return TF.job({"Worker": TF.replica(1, **container)})


def named(name: str) -> Object:
    job = TF.job({"Worker": 1})
    job["metadata"]["name"] = name
    return job


HERE = f"{MAP}[Worker].template.spec.containers"
NO_CONTAINERS = {"replicas": 1, "template": {"spec": {"containers": []}}}
MISSING = "Required value: must have at least one container with name tensorflow"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (TF.job({"Worker": 2, "PS": 1, "Chief": 1, "Evaluator": 1}), []),
        (TF.job({"Worker": 0}), []),
        (TF.job({"worker": 1}), []),
        (
            TF.job({"Worker": NO_CONTAINERS}),
            [f"{HERE}: Required value: must be specified", f"{HERE}: {MISSING}"],
        ),
        (with_container(image=""), [f"{HERE}[0].image: Required value: must be required"]),
        (with_container(name="main"), [f"{HERE}: {MISSING}"]),
        (
            TF.job({"Chief": 1, "Master": 1, "Worker": 1}),
            [f"{MAP}: Forbidden: must not have more than 1 Chief or Master role"],
        ),
        ({"metadata": {"name": "a"}, "spec": {}}, [f"{MAP}: Required value: must be required"]),
        (
            TF.job({"Worker": 1}, managedBy="me"),
            [
                'spec.runPolicy.managedBy: Unsupported value: "me": supported values: '
                '"kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"'
            ],
        ),
    ],
)
def test_rules(job: Object, expected: list[str]) -> None:
    assert errors(job) == expected


def test_a_wrong_name_and_a_new_manager_are_refused() -> None:
    assert text(validate_tfjob(named("0-1"), None).errors).startswith(
        'metadata.name: Invalid value: "0-1": should match: '
    )
    managed = TF.job({"Worker": 1}, managedBy="kueue.x-k8s.io/multikueue")
    assert errors(managed, TF.job({"Worker": 1})) == [
        'spec.runPolicy.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": field is immutable'
    ]


def test_a_replica_type_that_is_ignored_warns() -> None:
    assert validate_tfjob(TF.job({"worker": 1}), None).warnings == ()
    verdict = validate_tfjob(TF.job({"Worker": 1, "Helper": 1}), None)
    assert (verdict.errors, verdict.warnings) == (
        (),
        (
            f"{MAP}[Helper] is ignored: no such replica type; "
            'supported values: "Chief", "Evaluator", "Master", "PS", "Worker"',
        ),
    )


def test_an_invalid_job_past_the_webhook_says_why() -> None:
    plan: Plan = TF.plan(TF.job({"Chief": 1, "Master": 1}))
    assert not plan.actions
    assert told(plan) == [
        (
            "Warning",
            "TFJobFailedValidation",
            f"TFJob failed validation because {MAP}: Forbidden: must not have more than 1 Chief or Master role",
        )
    ]
