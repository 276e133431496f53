"""Golden manifests: what a job becomes, for people to read and to review as a diff.

Each `tests/golden/<case>.input.yaml` holds a job, and beside it in the same file the pods as the node reports them,
its PodGroup and the options of the operator, if any. `<case>.output.yaml` holds what the plan creates and the status
that it writes, keys sorted, at a fixed time. After a deliberate change: `python -m tests.unit.test_jobs_golden
--update`, then review.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.unit.jobs_builders import NOW
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.plan import Apply, Create
from trainshed.kube.meta.podgroups import COSCHEDULING_PODGROUPS, VOLCANO_PODGROUPS
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.kube.wire.yamltext import PlainDumper

RESOURCES = {resource.api_version: resource for resource in (PODS, VOLCANO_PODGROUPS, COSCHEDULING_PODGROUPS)}
GOLDEN = Path(__file__).parent.parent / "golden"
INPUTS = sorted(GOLDEN.glob("*.input.yaml"))


def render(path: Path) -> str:
    """Return the output of one case."""
    job, *others = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    owned: dict[Resource, list[Any]] = {PODS: []}
    options = OperatorOptions()
    for other in others:
        if other["kind"] == "OperatorOptions":
            options = msgspec.convert({**other, "kind": None}, OperatorOptions)
        else:
            owned.setdefault(RESOURCES[other["apiVersion"]], []).append(other)
    plan = decide(Observed(job=job, owned=owned, now=NOW, options=options))
    documents: list[Any] = []
    for action in plan.actions:
        match action:
            case Create(object=made) | Apply(object=made):
                documents.append(made)
            case _:
                verb = type(action).__name__ + action.resource.kind
                documents.append({"action": verb, "name": action.name})  # type: ignore[attr-defined]
    documents.append({"status": plan.status})
    documents.append({"events": [f"{e.type} {e.reason}: {e.message}" for e in plan.events]})
    text: str = yaml.dump_all(documents, Dumper=PlainDumper, sort_keys=True, width=110, explicit_start=True)
    return text


def output_of(path: Path) -> Path:
    return path.with_name(path.name.replace(".input.", ".output."))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name.split(".")[0])
def test_golden(path: Path) -> None:
    assert render(path) == output_of(path).read_text(), "see the docstring of this file for how to update"


def test_no_output_is_left_over() -> None:
    assert {output_of(path) for path in INPUTS} == set(GOLDEN.glob("*.output.yaml"))
    assert len(INPUTS) >= 6


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: python -m tests.unit.test_jobs_golden --update")
    for case in INPUTS:
        output_of(case).write_text(render(case))
