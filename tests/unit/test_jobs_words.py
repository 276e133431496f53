"""What each kind is called, and the words of its conditions, events and counters in each turn that a job can take.

`tests/golden/words.txt` has them: conditions in order, events, counters and times, for every kind.
`python -m tests.unit.test_jobs_words --update` writes it; review the difference against the tables of upstream.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.manifests import replicas_of
from tests.unit.jobs_builders import NOW
from tests.unit.kind_builders import States, make_job_of, make_pod_of
from trainshed.api.crd import crd
from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import time_or_none
from trainshed.testing.builders import JOB_KINDS

WORDS = Path(__file__).parents[1] / "golden" / "words.txt"

_SHAPES: tuple[tuple[str, Mapping[str, int | None]], ...] = (
    ("PyTorchJob", {"Master": 1, "Worker": 2}),
    ("PyTorchJob", {"Worker": 2}),
    ("TFJob", {"Chief": 1, "PS": 1, "Worker": 2}),
    ("TFJob", {"Worker": 2}),
    ("MPIJob", {"Launcher": 1, "Worker": 2}),
    ("XGBoostJob", {"Master": 1, "Worker": 2}),
    ("PaddleJob", {"Master": 1, "Worker": 2}),
    ("PaddleJob", {"Worker": 2}),
    ("JAXJob", {"Worker": 2}),
    ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 2}),
)
SHAPES = (*_SHAPES, *((name, replicas_of(name)) for name in JOB_KINDS if name not in dict(_SHAPES)))
"""Every kind, some in two shapes; a new one in that of its manifests."""


class Turns:
    """A job of one shape, taken through turns; `said` is the transcript."""

    def __init__(self, kind: JobKind, counts: Mapping[str, int | None], policy: str) -> None:
        self.kind, self.counts, self.policy = kind, counts, policy
        self.said: list[str] = []
        self.status: Object | None = None
        self.now = NOW

    @property
    def running(self) -> dict[tuple[str, int], str | int]:
        """All pods, and that they run."""
        return {(type_, i): "Running" for type_, count in self.counts.items() for i in range(count or 0)}

    @property
    def first(self) -> tuple[str, int]:
        """The first pod: that of the leader, or the first of the workers."""
        return next(iter(self.counts)), 0

    def again(self, policy: str = "Never") -> None:
        """Begin anew with a job that runs, of which nothing is noted."""
        self.policy, self.status, said = policy, None, self.said[:]
        self.take("", self.running)
        self.said = said

    def take(self, turn: str, states: States | None = None, **run_policy: Any) -> Plan:
        """Decide once, ten seconds later, and note what the plan says."""
        self.now += 10
        job = make_job_of(self.kind, self.counts, self.policy, status=self.status, **run_policy)
        pods = [make_pod_of(self.kind, type_, i, state) for (type_, i), state in (states or {}).items()]
        plan = decide(Observed(job=job, owned={PODS: pods}, now=self.now))
        self.said.append(f"  {turn}")
        self.said += (f"    {line}" for line in _conclusions(plan))
        self.status = plan.status or self.status
        return plan


def _conclusions(plan: Plan) -> Iterator[str]:
    status = plan.status or {}
    for one in status.get("conditions", ()):
        yield f"{one['type']} {one['status']} {one['reason']}: {one['message']}"
    for event in plan.events:
        yield f"event {event.type} {event.reason}: {event.message}"
    for action in plan.actions:
        for event in action.succeeded() if isinstance(action, Delete) else ():
            yield f"then {event.type} {event.reason}: {event.message}"
    for counter in plan.counters:
        yield f"counted training_operator_jobs_{counter}_total"
    times = [
        f"{field} {_since(status[field])}" for field in ("startTime", "completionTime") if field in status
    ]
    counts = [
        f"{type_}: {', '.join(f'{n} {word}' for word, n in each.items() if word != 'selector') or 'none'}"
        f"{', selector' if 'selector' in each else ''}"
        for type_, each in status.get("replicaStatuses", {}).items()
    ]
    yield from ("; ".join(part) for part in (times, counts) if part)


def _since(time: str) -> str:
    """Return a time in seconds since the first turn was due."""
    return f"+{(time_or_none(time) or 0.0) - NOW:.0f} s"


def transcript() -> str:
    """Return what all kinds say in every turn."""
    lines: list[str] = []
    for name, counts in SHAPES:
        kind = JOB_KINDS[name]
        lines.append(f"{name} of {', '.join(f'{count} {type_}' for type_, count in counts.items())}")
        turns = Turns(kind, counts, "Never")
        _life(turns)
        for run_policy, states in (
            ({"activeDeadlineSeconds": 5}, {}),
            ({"backoffLimit": 0}, {("Worker", 1): 1}),
        ):
            turns.again()
            ((limit, value),) = run_policy.items()
            turns.take(f"{limit} {value} is reached", {**turns.running, **states}, **run_policy)
        for policy, code in (("Never", 1), ("OnFailure", 1), ("ExitCode", 137), ("ExitCode", 1)):
            turns.again(policy)
            turns.take(f"a worker fails under {policy} with {code}", {**turns.running, ("Worker", 1): code})
        lines += [*turns.said, ""]
    return "\n".join(lines)


def _life(turns: Turns) -> None:
    done = dict.fromkeys(turns.running, 0)
    turns.take("created")
    turns.take("running", turns.running)
    turns.take("suspended", turns.running, suspend=True)
    turns.take("resumed")
    turns.take("running again", turns.running)
    turns.take("the first pod ends well", {**turns.running, turns.first: 0})
    turns.take("all end well", done)
    turns.take("over", done)
    turns.take("its time to live is over", done, ttlSecondsAfterFinished=5)


def test_words() -> None:
    assert transcript().splitlines() == WORDS.read_text().splitlines(), "see the head of this file"


UPSTREAM = """
PyTorchJob pytorchjobs pytorchReplicaSpecs Master,Worker pytorch pytorchjob-port 23456 pytorch scale State,Age
TFJob tfjobs tfReplicaSpecs Chief,Evaluator,Master,PS,Worker tensorflow tfjob-port 2222 tensorflow - State,Age
MPIJob mpijobs mpiReplicaSpecs Launcher,Worker mpi - - mpi - Age,State
XGBoostJob xgboostjobs xgbReplicaSpecs Master,Worker xgboost xgboostjob-port 9999 xgboost - State,Age
PaddleJob paddlejobs paddleReplicaSpecs Master,Worker paddle master 36543 paddle scale State,Age
JAXJob jaxjobs jaxReplicaSpecs Worker jax jaxjob-port 6666 jax scale State,Age
MXJob mxjobs mxReplicaSpecs Scheduler,Server,Tuner,TunerServer,TunerTracker,Worker mxnet mxjob-port 9091 mxnet - \
State,Age
"""
"""Kind, plural, map, replica types, container, port with number, framework in metrics, `scale`, columns."""


@pytest.mark.parametrize("row", UPSTREAM.split("\n")[1:-1], ids=lambda row: row.split()[0])
def test_every_kind_is_declared_as_upstream(row: str) -> None:
    name, plural, map_, types, container, port, number, framework, scale, columns = row.split()
    kind = JOB_KINDS[name]
    definition = crd(kind)
    (version,) = definition["spec"]["versions"]
    assert definition["spec"]["names"] == {
        "kind": name,
        "listKind": f"{name}List",
        "plural": plural,
        "singular": name.lower(),
    }
    assert (definition["spec"]["group"], version["name"]) == ("kubeflow.org", "v1")
    assert definition["spec"]["scope"] == "Namespaced"
    assert kind.replica_specs_field == map_
    assert ",".join(sorted(kind.type_names)) == types
    assert kind.container_name == container
    found = ("-", "-") if kind.port is None else (kind.port.name, str(kind.port.number))
    assert found == (port, number)
    assert kind.framework == framework
    assert kind.controller_name == f"{name.lower()}-controller"
    assert ("scale" in version["subresources"]) == (scale == "scale") and "status" in version["subresources"]
    assert ",".join(column["name"] for column in version["additionalPrinterColumns"]) == columns
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] == sorted(
        {map_, *(["jobMode"] if name == "MXJob" else [])}
    )


if __name__ == "__main__" and "--update" in sys.argv:
    WORDS.write_text(transcript())
