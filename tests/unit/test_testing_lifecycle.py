"""Lifecycles as data: which pods they are for, and what each stage looks like in a status."""

from __future__ import annotations

import msgspec
import pytest

from trainshed.cluster.node.fake.lifecycle import Lifecycle, Stage, lifecycle_of, read_lifecycles, status_at
from trainshed.testing.builders import make_job, make_pod, make_pod_spec, make_replica

POD = make_pod("a", labels={"app": "a", "tier": "x"}, annotations={"outcome": "fails"})


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [
        (Lifecycle(stages=()), True),
        (Lifecycle(stages=(), labels={"app": "a"}), True),
        (Lifecycle(stages=(), labels={"app": "b"}), False),
        (Lifecycle(stages=(), labels={"app": "a"}, annotations={"outcome": "fails"}), True),
        (Lifecycle(stages=(), labels={"app": "a"}, annotations={"outcome": "succeeds"}), False),
        (Lifecycle(stages=(), annotations={"other": "fails"}), False),
    ],
)
def test_which_pods_a_lifecycle_is_for(lifecycle: Lifecycle, expected: bool) -> None:
    assert lifecycle.is_for(POD) == expected


def test_the_first_that_fits_counts() -> None:
    first, second = Lifecycle(stages=(), labels={"app": "a"}), Lifecycle(stages=())
    assert lifecycle_of(POD, [first, second]) is first
    assert lifecycle_of(make_pod("b"), [first, second]) is second
    assert lifecycle_of(make_pod("b"), [first]) is None


@pytest.mark.parametrize(
    ("stage", "state"),
    [
        (Stage(phase="Pending"), {"waiting": {"reason": "ContainerCreating"}}),
        (
            Stage(phase="Pending", reason="ImagePullBackOff", message="no"),
            {"waiting": {"reason": "ImagePullBackOff", "message": "no"}},
        ),
        (Stage(), {"running": {"startedAt": "1970-01-01T00:00:10Z"}}),
        (
            Stage(phase="Succeeded"),
            {
                "terminated": {
                    "exitCode": 0,
                    "reason": "Completed",
                    "startedAt": "1970-01-01T00:00:10Z",
                    "finishedAt": "1970-01-01T00:00:12Z",
                }
            },
        ),
        (
            Stage(phase="Failed", exit_code=137, reason="OOMKilled"),
            {
                "terminated": {
                    "exitCode": 137,
                    "reason": "OOMKilled",
                    "startedAt": "1970-01-01T00:00:10Z",
                    "finishedAt": "1970-01-01T00:00:12Z",
                }
            },
        ),
    ],
    ids=lambda value: value.phase if isinstance(value, Stage) else "",
)
def test_what_a_stage_looks_like(stage: Stage, state: object) -> None:
    status = status_at(POD, stage, started_at=10, now=12, address="10.0.0.1")
    assert (status["phase"], status["podIP"]) == (stage.phase, "10.0.0.1")
    assert [c["state"] for c in status["containerStatuses"]] == [state]


def test_failing_without_an_exit_code_is_1_and_ready_is_a_condition() -> None:
    failed = status_at(POD, Stage(phase="Failed"), started_at=0, now=0, address="")
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    ready = status_at(POD, Stage(ready=True, restarts=2), started_at=0, now=0, address="")
    assert {c["type"]: c["status"] for c in ready["conditions"]}["Ready"] == "True"
    assert ready["containerStatuses"][0]["restartCount"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{stages: [{phase: Running, redy: true}]}]", r"unknown field `redy` - at `\$\[0\]\.stages\[0\]`"),
        ("[{labels: {a: b}}]", "missing required field `stages`"),
        ("[{stages: [{after: soon}]}]", r"Expected `float`, got `str` - at `\$\[0\]\.stages\[0\]\.after`"),
    ],
)
def test_a_wrong_lifecycle_names_the_field(text: str, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        read_lifecycles(text)


def test_a_job_is_its_replicas_in_the_order_of_the_kind() -> None:
    job = make_job("train", 1, make_replica(3, restart_policy="Never"), namespace="ns", cleanPodPolicy="All")
    assert job["metadata"] == {"name": "train", "namespace": "ns"}
    assert job["spec"]["runPolicy"] == {"cleanPodPolicy": "All"}
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert {type_: spec["replicas"] for type_, spec in replicas.items()} == {"Master": 1, "Worker": 3}
    assert replicas["Worker"]["restartPolicy"] == "Never"
    assert replicas["Master"]["template"]["spec"]["containers"][0]["name"] == "pytorch"
    assert list(make_job("train", None, 2)["spec"]["pytorchReplicaSpecs"]) == ["Worker"]
    assert "runPolicy" not in make_job()["spec"]


def test_a_count_makes_pods_whose_container_trains_by_the_rules_of_the_kind() -> None:
    (pods,) = make_job("train", 2, kind="JAXJob")["spec"]["jaxReplicaSpecs"].values()
    assert pods["template"]["spec"]["containers"][0]["name"] == "jax"


def test_mounts_are_directories_of_the_host() -> None:
    spec = make_pod_spec("true", mounts={"/out/put": "/tmp/x"}, grace_seconds=1, env=[])
    assert spec["containers"] == [
        {
            "name": "main",
            "image": "example.com/train:1",
            "command": ["sh", "-c", "true"],
            "env": [],
            "volumeMounts": [{"name": "out-put", "mountPath": "/out/put"}],
        }
    ]
    assert spec["volumes"] == [{"name": "out-put", "hostPath": {"path": "/tmp/x", "type": "Directory"}}]
    assert spec["terminationGracePeriodSeconds"] == 1
