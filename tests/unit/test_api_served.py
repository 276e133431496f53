"""The generated CRD as an API server reads it: accepted, and a real job goes through it whole."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainshed.api.crd import crd
from trainshed.api.registry import KINDS
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.kube.schema.cel import evaluate_rules
from trainshed.kube.schema.crd import crd_defaults, validate_crd
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.nodes import from_crd
from trainshed.kube.schema.structural import apply_defaults, validate

GOLDEN = Path(__file__).parent.parent / "golden"
JOBS = [
    next(yaml.load_all(path.read_text(), yaml.CSafeLoader)) for path in sorted(GOLDEN.glob("*.input.yaml"))
]


@functools.cache
def schema(kind: str = PYTORCHJOB.name) -> Any:
    return from_crd(crd(KINDS[kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_definition_is_accepted(kind: str) -> None:
    definition = crd(KINDS[kind])
    crd_defaults(definition)
    assert validate_crd(definition, None) == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job['kind']}-{job['metadata']['name']}")
def test_jobs_are_stored_whole(job: Any) -> None:
    """Nothing is pruned, nothing is refused; only the declared defaults are added."""
    known = schema(job["kind"])
    kept, warnings = conform(job, known, mode="strict", what=job["kind"], builtin=False)
    assert (kept, warnings) == (job, [])
    assert validate(apply_defaults(kept, known), known) == []


def test_the_server_adds_only_protocol_and_suspend() -> None:
    port = {"name": "a", "containerPort": 1}
    job = {
        "spec": {
            "runPolicy": {},
            "pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}},
        }
    }
    container = {"name": "pytorch", "ports": [port]}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = [container]  # type: ignore
    spec = apply_defaults(job, schema())["spec"]
    assert spec["runPolicy"] == {"suspend": False}
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    assert worker == {
        "template": {"spec": {"containers": [{**container, "ports": [{**port, "protocol": "TCP"}]}]}}
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"containers": [{"image": "x"}]}, "containers[0].name"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, "containers[1]"),
        ({"containers": [{"name": "a", "env": [{"name": "E"}, {"name": "E"}]}]}, "env[1]"),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "much"}}}]}, "limits.cpu"),
        ({}, "containers"),
    ],
)
def test_what_the_server_refuses(change: Any, field: str) -> None:
    job = {"spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": change}}}}}
    causes = validate(job, schema())
    assert [cause.field.endswith(field) for cause in causes] == [True], causes


@pytest.mark.parametrize(("old", "new", "refused"), [("a", "a", False), ("a", "b", True), (None, "b", False)])
def test_the_queue_is_immutable_once_set(old: str | None, new: str, refused: bool) -> None:
    def job(queue: str | None) -> Any:
        return {"spec": {"runPolicy": {"schedulingPolicy": {} if queue is None else {"queue": queue}}}}

    messages = [cause.message for cause in evaluate_rules(job(new), job(old), schema())]
    assert bool(messages) is refused
    assert all("spec.runPolicy.schedulingPolicy.queue is immutable" in message for message in messages)
