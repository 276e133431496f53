"""What an MPIJob means where it says nothing, and which are refused with which sentence."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.api.v1.mpi import POLICY_IGNORED, default_mpijob, validate_mpijob
from trainshed.api.verdict import text
from trainshed.kube.meta.objects import Object

MAP = "spec.mpiReplicaSpecs"


def replica(*containers: Object, **spec: Any) -> Object:
    return {"template": {"spec": {"containers": [*containers] or [{"name": "mpi", "image": "i:1"}]}}, **spec}


def make(replicas: Any = None, name: str = "train", **spec: Any) -> Object:
    specs = {"Launcher": replica(), "Worker": replica()} if replicas is None else replicas
    return {"metadata": {"name": name}, "spec": {"mpiReplicaSpecs": specs, **spec}}


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [(None, None, "None"), ("All", None, "All"), (None, "Running", "Running"), ("All", "Running", "Running")],
)
def test_either_clean_pod_policy_is_both_and_that_of_the_run_policy_wins(
    old: str | None, new: str | None, meant: str
) -> None:
    spec: Object = {} if old is None else {"cleanPodPolicy": old}
    if new is not None:
        spec["runPolicy"] = {"cleanPodPolicy": new, "suspend": True}
    job = make(**spec)
    out = default_mpijob(job)["spec"]
    assert out["cleanPodPolicy"] == out["runPolicy"]["cleanPodPolicy"] == meant
    assert out["runPolicy"].get("suspend") is (None if new is None else True)
    assert ("runPolicy" in job["spec"]) is (new is not None), "the stored job stays as written"
    assert default_mpijob(default_mpijob(job)) == default_mpijob(job)


def test_counts_restart_policy_and_no_port() -> None:
    specs = default_mpijob(make())["spec"]["mpiReplicaSpecs"]
    assert {name: spec["replicas"] for name, spec in specs.items()} == {"Launcher": 1, "Worker": 0}
    assert {spec["restartPolicy"] for spec in specs.values()} == {"Never"}
    assert "ports" not in specs["Launcher"]["template"]["spec"]["containers"][0]


NO_IMAGE, NO_NAME = {"name": "mpi"}, {"image": "i:1"}


@pytest.mark.parametrize(
    ("job", "path", "sentence"),
    [
        (make(replicas=False), MAP, "MPIReplicaSpecs is not valid"),
        (
            make(replicas={"Launcher": {"template": {"spec": {"containers": []}}}}),
            f"{MAP}[Launcher].template.spec.containers",
            "MPIReplicaSpecs is not valid: containers definition expected in Launcher",
        ),
        (
            make(replicas={"Launcher": replica(), "Worker": None}),
            f"{MAP}[Worker].template.spec.containers",
            "MPIReplicaSpecs is not valid: containers definition expected in Worker",
        ),
        (
            make(replicas={"Launcher": replica(), "worker": replica()}),
            f"{MAP}[worker]",
            "MPIReplicaType is worker but must be one of [Launcher Worker]",
        ),
        (
            make(replicas={"Launcher": replica(NO_IMAGE)}),
            f"{MAP}[Launcher].template.spec.containers[0].image",
            "MPIReplicaSpec is not valid: Image is undefined in the container of Launcher",
        ),
        (
            make(replicas={"Launcher": replica(), "Worker": replica(NO_NAME)}),
            f"{MAP}[Worker].template.spec.containers[0].name",
            "MPIReplicaSpec is not valid: ImageName is undefined in the container of Worker",
        ),
        (
            make(replicas={"Launcher": replica(replicas=2)}),
            f"{MAP}[Launcher].replicas",
            "MPIReplicaSpec is not valid: There must be only 1 launcher replica",
        ),
        (
            make(replicas={"Worker": replica()}),
            f"{MAP}[Launcher]",
            "MPIReplicaSpec is not valid: Master ReplicaSpec must be present",
        ),
        (
            make(name="a" * 64),
            "metadata.name",
            f'metadata.name: Invalid value: "{"a" * 64}": must be no more than 63 characters',
        ),
        (
            make(runPolicy={"managedBy": "other"}),
            "spec.runPolicy.managedBy",
            'spec.runPolicy.managedBy: Unsupported value: "other": supported values: '
            '"kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"',
        ),
    ],
)
def test_rules(job: Object, path: str, sentence: str) -> None:
    (error,) = validate_mpijob(job, None).errors
    assert (error.path, text([error])) == (path, sentence)


@pytest.mark.parametrize(
    "job",
    [
        make(),
        make(replicas={"Launcher": replica(replicas=1)}),
        make(name="1.b"),
        make(replicas={"Launcher": replica(), "Worker": replica({"name": "any", "image": "i"}, replicas=0)}),
    ],
)
def test_what_is_let_in(job: Object) -> None:
    verdict = validate_mpijob(job, None)
    assert (verdict.errors, verdict.warnings) == ((), ())


def test_every_problem_is_told_in_a_fixed_order() -> None:
    job = make(replicas={"b": replica(), "a": replica(), "Worker": replica(NO_IMAGE)})
    assert [error.path for error in validate_mpijob(job, None).errors] == [
        f"{MAP}[Worker].template.spec.containers[0].image",
        f"{MAP}[a]",
        f"{MAP}[b]",
        f"{MAP}[Launcher]",
    ]


def test_the_manager_cannot_change() -> None:
    old = make(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    assert [error.detail for error in validate_mpijob(make(), old).errors] == ["field is immutable"]


@pytest.mark.parametrize(("new", "warned"), [("All", False), ("Running", True), (None, False)])
def test_a_policy_that_another_overrides_warns(new: str | None, warned: bool) -> None:
    job = make(cleanPodPolicy="All", runPolicy={} if new is None else {"cleanPodPolicy": new})
    assert validate_mpijob(job, None).warnings == ((POLICY_IGNORED,) if warned else ())
