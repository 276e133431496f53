"""What PyTorch adds to a pod, and how its counts are judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import (
    created_pods,
    env_of,
    make_job,
    make_pod,
    make_replica,
    make_template,
    plan_for,
    read,
)
from trainshed.jobs.engine.children import Tally, classify
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import Seen
from trainshed.jobs.v1.frameworks.pytorch import PyTorch, PyTorchOptions

ELASTIC = {"minReplicas": 1, "maxReplicas": 3}
FULL_ELASTIC = {
    **ELASTIC,
    "rdzvBackend": "etcd",
    "rdzvHost": "etcd-host",
    "rdzvPort": 2379,
    "rdzvId": "run-7",
    "rdzvConf": [{"key": "timeout", "value": "5"}, {"key": "a", "value": "b"}],
    "maxRestarts": 3,
    "standalone": True,
    "nProcPerNode": 2,
}


def test_environment_with_a_master_in_order() -> None:
    pods = created_pods(plan_for(make_job(master=1, workers=2, spec={"nprocPerNode": "4"})))
    assert env_of(pods["train-worker-1"]) == [
        ("PYTHONUNBUFFERED", "1"),
        ("MASTER_PORT", "23456"),
        ("PET_MASTER_PORT", "23456"),
        ("MASTER_ADDR", "train-master-0"),
        ("PET_MASTER_ADDR", "train-master-0"),
        ("WORLD_SIZE", "12"),
        ("RANK", "2"),
        ("PET_NODE_RANK", "2"),
        ("PET_NPROC_PER_NODE", "4"),
        ("PET_NNODES", "3"),
    ]
    assert dict(env_of(pods["train-master-0"]))["RANK"] == "0"


@pytest.mark.parametrize(
    ("processes", "world_size"),
    [
        ("auto", "2"),
        ("gpu", "2"),
        ("+4", "8"),
        ("0004", "8"),
        ("4.0", "2"),
        (" 4", "2"),
        ("٤", "2"),
        ("", "2"),
        ("-2", "-4"),
        ("00", "0"),
        (str(2**63 - 1), str(2 * (2**63 - 1))),
        (str(2**63), "2"),
        ("9" * 5000, "2"),
        ("0" * 5000 + "4", "8"),
        ("0" * 300_000 + "x", "2"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_number_of_processes_counts_as_one(processes: str, world_size: str) -> None:
    """As Go reads numbers of 64 bits; the product may need more."""
    pods = created_pods(plan_for(make_job(master=1, workers=1, spec={"nprocPerNode": processes})))
    assert dict(env_of(pods["train-worker-0"]))["WORLD_SIZE"] == world_size


def test_environment_of_workers_alone_has_no_ranks() -> None:
    """torchrun finds ranks by rendezvous; without elasticPolicy it gets the size only."""
    (pod,) = created_pods(plan_for(make_job(workers=1))).values()
    assert env_of(pod) == [("PYTHONUNBUFFERED", "1"), ("PET_NPROC_PER_NODE", "auto"), ("PET_NNODES", "1")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            ELASTIC,
            [
                ("PET_NPROC_PER_NODE", "auto"),
                ("PET_RDZV_ENDPOINT", "train-worker-0:23456"),
                ("PET_RDZV_BACKEND", "c10d"),
                ("PET_NNODES", "1:3"),
            ],
        ),
        (
            FULL_ELASTIC,
            [
                ("PET_RDZV_ENDPOINT", "etcd-host:2379"),
                ("PET_RDZV_BACKEND", "etcd"),
                ("PET_NNODES", "1:3"),
                ("PET_MAX_RESTARTS", "3"),
                ("PET_NPROC_PER_NODE", "2"),
                ("PET_RDZV_ID", "run-7"),
                ("PET_RDZV_CONF", "timeout=5,a=b"),
                ("PET_STANDALONE", ""),
            ],
        ),
    ],
)
def test_elastic_environment_in_order(policy: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    (pod,) = created_pods(plan_for(make_job(workers=1, spec={"elasticPolicy": policy}))).values()
    assert env_of(pod) == [("PYTHONUNBUFFERED", "1"), *expected]


def test_an_empty_rendezvous_configuration_is_none() -> None:
    job = make_job(workers=1, spec={"elasticPolicy": {**ELASTIC, "rdzvConf": []}})
    (pod,) = created_pods(plan_for(job)).values()
    assert "PET_RDZV_CONF" not in dict(env_of(pod))


def test_variables_are_appended_to_every_container_and_not_to_init_containers() -> None:
    template = make_template(env=[{"name": "RANK", "value": "mine"}])
    template["spec"]["containers"].append({"name": "sidecar", "image": "s"})
    template["spec"]["initContainers"] = [{"name": "init", "image": "i"}]
    job = make_job(replicas={"Master": make_replica(1, template=template)})
    (pod,) = created_pods(plan_for(job)).values()
    assert env_of(pod)[0] == ("RANK", "mine")
    assert env_of(pod)[1:] == env_of(pod, 1)
    assert "env" not in pod["spec"]["initContainers"][0]


def test_the_port_comes_from_the_master() -> None:
    template = make_template(ports=[{"name": "pytorchjob-port", "containerPort": 4711}])
    job = make_job(replicas={"Master": make_replica(1, template=template), "Worker": make_replica(1)})
    for pod in created_pods(plan_for(job)).values():
        assert dict(env_of(pod))["MASTER_PORT"] == "4711"


@pytest.mark.parametrize(
    ("job", "waiting"),
    [
        (make_job(workers=1), []),
        (make_job(master=1), []),
        (make_job(master=1, workers=2), ["train-worker-0", "train-worker-1"]),
    ],
    ids=["workers alone", "master alone", "both"],
)
def test_workers_wait_for_the_name_of_their_master(job: dict[str, Any], waiting: list[str]) -> None:
    pods = created_pods(plan_for(job))
    assert [name for name, pod in pods.items() if pod["spec"].get("initContainers")] == waiting


def test_the_wait_comes_after_the_init_containers_of_the_template() -> None:
    template = make_template()
    template["spec"]["initContainers"] = [{"name": "mine", "image": "i"}]
    job = make_job(replicas={"Master": make_replica(1), "Worker": make_replica(1, template=template)})
    options = OperatorOptions(by_kind={"PyTorchJob": PyTorchOptions(image="busybox:1", max_tries=7)})
    init = created_pods(plan_for(job, options=options))["train-worker-0"]["spec"]["initContainers"]
    assert [container["name"] for container in init] == ["mine", "init-pytorch"]
    assert init[1] == {
        "name": "init-pytorch",
        "image": "busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": [
            "sh",
            "-c",
            "trap 'exit 143' TERM;err=1;for i in $(seq 7); do if nslookup train-master-0; then err=0 && break; fi;"
            "echo waiting for master; sleep 2 & wait $!; done; exit $err",
        ],
    }


MASTER_RUNS, WORKERS_RUN = "PyTorchJob train is running.", "PyTorchJob ns/train is running."
MASTER_DONE = "PyTorchJob train is successfully completed."
WORKERS_DONE = "PyTorchJob ns/train successfully completed."
ELASTIC_SPEC = {"elasticPolicy": ELASTIC}


@pytest.mark.parametrize(
    ("job", "master", "worker", "running", "succeeded", "failing"),
    [
        (make_job(master=1, workers=2), (1, 0, 0), (0, 0, 0), MASTER_RUNS, None, []),
        (make_job(master=1, workers=2), (0, 0, 0), (2, 0, 0), None, None, []),
        (make_job(master=1, workers=2), (0, 1, 0), (2, 0, 0), None, MASTER_DONE, []),
        (make_job(master=1, workers=2), (0, 1, 0), (0, 0, 2), None, MASTER_DONE, []),
        (make_job(master=1, workers=2), (0, 0, 0), (0, 2, 0), None, None, []),
        (make_job(master=1, workers=2), (1, 0, 0), (1, 0, 1), MASTER_RUNS, None, [("Worker", True)]),
        (
            make_job(master=1, workers=1, policy="Never"),
            (0, 0, 1),
            (1, 0, 0),
            None,
            None,
            [("Master", False)],
        ),
        (make_job(workers=0), None, (0, 0, 0), None, None, []),
        (make_job(master=0, workers=1), (0, 0, 0), (1, 0, 0), None, None, []),
        (make_job(workers=1), None, (0, 1, 0), None, WORKERS_DONE, []),
        (make_job(workers=2), None, (1, 1, 0), WORKERS_RUN, None, []),
        (make_job(workers=2), None, (0, 2, 0), None, WORKERS_DONE, []),
        (make_job(workers=2), None, (1, 0, 1), WORKERS_RUN, None, [("Worker", True)]),
        (make_job(workers=2, policy="Never"), None, (0, 1, 1), None, None, [("Worker", False)]),
        (make_job(workers=3, spec=ELASTIC_SPEC), None, (2, 1, 0), WORKERS_RUN, WORKERS_DONE, []),
        (make_job(workers=3, spec=ELASTIC_SPEC), None, (1, 1, 1), WORKERS_RUN, WORKERS_DONE, []),
        (make_job(workers=3, spec=ELASTIC_SPEC), None, (3, 0, 1), WORKERS_RUN, None, []),
    ],
)
def test_judgement(
    job: dict[str, Any],
    master: tuple[int, int, int] | None,
    worker: tuple[int, int, int],
    running: str | None,
    succeeded: str | None,
    failing: list[tuple[str, bool]],
) -> None:
    """Counts are active, succeeded, failed."""
    tallies = {
        type_: Tally(active=counts[0], succeeded=counts[1], failed=counts[2])
        for type_, counts in (("Master", master), ("Worker", worker))
        if counts is not None
    }
    seen = Seen(children=classify(read(job), [], []), tallies=tallies)
    judgement = PyTorch().judge(read(job), seen)
    assert (judgement.running, judgement.succeeded) == (running, succeeded)
    assert [(f.replica_type, f.restarts) for f in judgement.failing] == failing


@pytest.mark.parametrize(
    ("job", "master"),
    [(make_job(master=1, workers=2), "train-master-0"), (make_job(workers=2), "train-worker-0")],
)
def test_one_pod_speaks_for_the_job(job: dict[str, Any], master: str) -> None:
    role = "training.kubeflow.org/job-role"
    roles = {n: p["metadata"]["labels"].get(role) for n, p in created_pods(plan_for(job)).items()}
    assert {name for name, value in roles.items() if value} == {master}
    assert roles[master] == "master"


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_one_worker_of_an_elastic_job_that_ends_well_ends_it_beside_a_failed_one(policy: str) -> None:
    """Succeeded excludes Failed and Restarting, and nothing is restarted for a job that is over."""
    job = make_job(workers=2, policy=policy, spec={"elasticPolicy": ELASTIC})
    pods = [make_pod("Worker", 0, "Succeeded"), make_pod("Worker", 1, "Failed", exit_code=1)]
    plan = plan_for(job, pods)
    assert plan.actions == ()
    assert plan.status is not None
    assert [c["type"] for c in plan.status["conditions"]] == ["Created", "Succeeded"]
