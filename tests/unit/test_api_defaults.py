"""Defaulting of PyTorchJob, and that it is idempotent."""

from __future__ import annotations

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trainshed.api.v1.pytorch import default_pytorchjob

PORT = {"name": "pytorchjob-port", "containerPort": 23456}


def job(replicas: Any = None, **spec: Any) -> dict[str, Any]:
    return {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replicas, **spec}}


def replica(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(containers or ({"name": "pytorch"},))}}, **spec}


def defaulted(obj: dict[str, Any]) -> Any:
    return default_pytorchjob(obj)["spec"]


def test_a_minimal_job() -> None:
    assert defaulted(job({"Master": replica()})) == {
        "runPolicy": {"cleanPodPolicy": "None"},
        "nprocPerNode": "auto",
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "restartPolicy": "OnFailure",
                "template": {"spec": {"containers": [{"name": "pytorch", "ports": [PORT]}]}},
            }
        },
    }


def test_what_is_said_is_kept() -> None:
    said = job(
        {"Worker": replica(replicas=3, restartPolicy="Never")},
        runPolicy={"cleanPodPolicy": "All"},
        nprocPerNode="2",
    )
    spec = defaulted(said)
    assert spec["runPolicy"] == {"cleanPodPolicy": "All"}
    assert spec["nprocPerNode"] == "2"
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "Never")


@pytest.mark.parametrize(
    ("containers", "ports"),
    [
        ([{"name": "pytorch"}], [[PORT]]),
        ([{"name": "side"}, {"name": "pytorch"}], [None, [PORT]]),
        ([{"name": "side"}, {"name": "other"}], [[PORT], None]),
        ([{"name": "pytorch", "ports": [{"containerPort": 80}]}], [[{"containerPort": 80}, PORT]]),
        (
            [{"name": "pytorch", "ports": [{"name": "pytorchjob-port", "containerPort": 9}]}],
            [[{"name": "pytorchjob-port", "containerPort": 9}]],
        ),
        ([], []),
    ],
    ids=[
        "none",
        "beside a sidecar",
        "no such container: the first",
        "another port",
        "another number",
        "empty",
    ],
)
def test_port(containers: list[dict[str, Any]], ports: list[Any]) -> None:
    spec = defaulted(job({"Worker": {"template": {"spec": {"containers": containers}}}}))
    listed = spec["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert [container.get("ports") for container in listed] == ports


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["worker"], {"Worker": 0}),
        (["MASTER", "wORKER"], {"Master": 0, "Worker": 1}),
        (["Worker", "worker"], {"Worker": 1}),
        (["worker", "WORKER"], {"Worker": 1}),
        (["Sidekick"], {"Sidekick": 0}),
    ],
)
def test_spelling_of_replica_types(keys: list[str], expected: dict[str, int]) -> None:
    """The number tells which entry stays."""
    spec = defaulted(job({key: replica(mark=i) for i, key in enumerate(keys)}))
    assert {key: value["mark"] for key, value in spec["pytorchReplicaSpecs"].items()} == expected


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(None, None, (3, 3)), (1, 1, (1, 1)), (None, 1, (1, 1)), (2, None, (2, 2)), (1, 5, (1, 5))],
)
def test_elastic_bounds(least: int | None, most: int | None, expected: tuple[int, int]) -> None:
    policy = {k: v for k, v in (("minReplicas", least), ("maxReplicas", most)) if v is not None}
    elastic = defaulted(job({"Worker": replica(replicas=3)}, elasticPolicy=policy))["elasticPolicy"]
    assert (elastic["minReplicas"], elastic["maxReplicas"]) == expected


def test_elastic_without_workers_stays_as_it_is() -> None:
    assert defaulted(job({"Master": replica()}, elasticPolicy={}))["elasticPolicy"] == {}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "auto"),
        ({"elasticPolicy": {}}, "auto"),
        ({"elasticPolicy": {"nProcPerNode": 4}}, None),
        ({"nprocPerNode": "4"}, "4"),
        ({"nprocPerNode": "cpu", "elasticPolicy": {"nProcPerNode": 4}}, "cpu"),
    ],
)
def test_processes_per_node(spec: dict[str, Any], expected: str | None) -> None:
    assert defaulted(job({"Worker": replica()}, **spec)).get("nprocPerNode") == expected


MAYBE_REPLICA = st.one_of(
    st.none(),
    st.just({}),
    st.builds(
        lambda r, p, c: {"replicas": r, "restartPolicy": p, "template": {"spec": {"containers": c}}},
        st.one_of(st.none(), st.integers(-1, 3)),
        st.sampled_from([None, "", "Never"]),
        st.lists(st.sampled_from([{"name": "pytorch"}, {"name": "x", "ports": None}]), max_size=2),
    ),
)


@given(
    replicas=st.one_of(
        st.none(),
        st.dictionaries(st.sampled_from(["Master", "Worker", "worker", "WORKER", "Odd"]), MAYBE_REPLICA),
    ),
    spec=st.fixed_dictionaries(
        {},
        optional={
            "elasticPolicy": st.sampled_from([None, {}, {"minReplicas": 1}, {"nProcPerNode": 1}]),
            "runPolicy": st.sampled_from([None, {}, {"cleanPodPolicy": "All"}]),
            "nprocPerNode": st.sampled_from([None, "2"]),
        },
    ),
)
def test_idempotent_and_pure(replicas: Any, spec: dict[str, Any]) -> None:
    obj = job(replicas, **spec)
    before = copy.deepcopy(obj)
    once = default_pytorchjob(obj)
    assert obj == before
    assert default_pytorchjob(once) == once
