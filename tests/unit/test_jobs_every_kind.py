"""What must hold for each kind in the registry, a new one included: what an edit of a running job does to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.fakes.scenarios import SHAPES, Shape
from tests.unit.jobs_builders import NOW, conditions_of, created, deleted
from tests.unit.kind_builders import make_job_of
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.kube.meta.objects import Object, labels_of, name_of
from trainshed.kube.meta.plan import Apply, Create
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.testing.builders import JOB_KINDS

BY_KIND = {name: shape for name in FRAMEWORKS for shape in reversed(SHAPES) if shape.kind == name}
"""The first shape of each kind: a job as people write it."""
every_kind = pytest.mark.parametrize("shape", BY_KIND.values(), ids=str)
scaled_kinds = pytest.mark.parametrize(
    "shape", [shape for shape in BY_KIND.values() if JOB_KINDS[shape.kind].scale is not None], ids=str
)


class Life:
    """A job of a kind all of whose pods run, and what it owns. Edits change `job`, the world changes `states`."""

    def __init__(self, shape: Shape, **run_policy: Any) -> None:
        self.kind = shape.declared
        self.counts = shape.counts
        self.job = make_job_of(self.kind, self.counts, "OnFailure", spec=dict(shape.spec), **run_policy)
        self.now = NOW
        self._owned: dict[Resource, list[Object]] = {}
        self.states: dict[str, str | int] = {}
        first = self.plan()
        for action in first.actions:
            assert isinstance(action, Create | Apply)
            self._owned.setdefault(action.resource, []).append(copy.deepcopy(action.object))
        self.states = dict.fromkeys(map(name_of, self._owned[PODS]), "Running")
        self.step(first)
        self.step(self.plan())

    def plan(self) -> Plan:
        """Return what is planned for the job as it stands."""
        pods = [self._pod(pod) for pod in self._owned.get(PODS, ()) if name_of(pod) in self.states]
        return decide(Observed(job=self.job, owned={**self._owned, PODS: pods}, now=self.now))

    def step(self, plan: Plan) -> None:
        """Write the status of a plan, and delete the pods that it deletes."""
        self.job = {**self.job, "status": plan.status or self.job.get("status")}
        for name in deleted(plan, "Pod"):
            del self.states[name]
        gone = deleted(plan, "Service")
        for resource, kept in self._owned.items():
            self._owned[resource] = [o for o in kept if resource.kind != "Service" or name_of(o) not in gone]

    def of(self, type_: str) -> list[str]:
        """Return the names of the pods of one type that there are."""
        slug = type_.lower()
        found = (pod for pod in self._owned[PODS] if slug in labels_of(pod).values())
        return [name_of(pod) for pod in found if name_of(pod) in self.states]

    def specs(self) -> Object:
        """Return the replica specs of the job, to be changed."""
        self.job = copy.deepcopy(self.job)
        specs: Object = self.job["spec"][self.kind.replica_specs_field]
        return specs

    def _pod(self, pod: Object) -> Object:
        state = self.states[name_of(pod)]
        container: Object = {"name": self.kind.container_name, "restartCount": 0, "state": {"running": {}}}
        phase = state
        if isinstance(state, int):
            container["state"] = {"terminated": {"exitCode": state}}
            phase = "Failed" if state else "Succeeded"
        status = {"phase": phase, "containerStatuses": [container]}
        return {**pod, "metadata": {**pod["metadata"], "uid": name_of(pod)}, "status": status}


def over(life: Life) -> list[str]:
    """Return the outcomes that the status of the job says."""
    said = {c["type"] for c in life.job["status"]["conditions"] if c["status"] == "True"}
    return sorted(said & {"Succeeded", "Failed"})


def test_every_kind_has_a_shape() -> None:
    assert list(BY_KIND) == list(FRAMEWORKS) == list(JOB_KINDS)


@every_kind
def test_a_running_job_that_was_made_invalid_is_looked_after_but_starts_nothing(shape: Shape) -> None:
    """Where there is no webhook, any edit gets through: limits, counts and the end go on."""
    life = Life(shape, activeDeadlineSeconds=60)
    last = list(life.counts)[-1]
    life.specs()[last]["template"] = {"spec": {"containers": []}}
    plan = life.plan()
    assert not plan.actions and plan.status is None
    assert [event.reason for event in plan.events] == [FRAMEWORKS[shape.kind].invalid("").reason]
    assert plan.requeue_after == 60, "its deadline comes"

    whole = dict(life.states)
    del life.states[life.of(last)[-1]]
    assert not created(life.plan()) and not created(life.plan(), "Service"), "a lost pod is not made anew"

    life.states = dict.fromkeys(whole, 0)
    assert conditions_of(life.plan())[-1][:2] == ("Succeeded", "True")

    life.states, life.now = whole, NOW + 60
    assert conditions_of(life.plan())[-1][:2] == ("Failed", "True")


@every_kind
def test_a_job_without_replicas_waits_and_a_warning_says_so(shape: Shape) -> None:
    kind = shape.declared
    job = make_job_of(kind, {}, spec=dict(shape.spec))
    verdict = kind.validate(job, None)
    plan = decide(Observed(job=job, now=NOW))
    assert not plan.actions and [c[:2] for c in conditions_of(plan)] == [("Created", "True")]
    if not verdict.errors:
        warning = f"spec.{kind.replica_specs_field} is empty: the job has no pods, and waits for ever"
        assert warning in verdict.warnings
    assert bool(verdict.errors) == (shape.kind in ("MPIJob", "XGBoostJob")), "these require their first type"


@scaled_kinds
def test_scaled_to_zero_a_job_waits_and_scaled_back_it_has_its_workers_again(shape: Shape) -> None:
    """`kubectl scale --replicas=0` is asked of no webhook."""
    life = Life(shape)
    workers, others = life.of("Worker"), len(life.states) - life.counts["Worker"]
    life.specs()["Worker"]["replicas"] = 0
    plan = life.plan()
    assert deleted(plan, "Pod") == workers and not created(plan)
    life.step(plan)
    assert len(life.states) == others
    for _ in range(2):
        life.step(life.plan())
        assert life.plan().status is None and not life.plan().actions, "it has settled"
    assert over(life) == []
    life.specs()["Worker"]["replicas"] = len(workers)
    assert created(life.plan()) == workers


@every_kind
def test_the_pods_of_a_type_that_an_edit_takes_away_stay_and_speak_for_nothing(shape: Shape) -> None:
    life = Life(shape)
    last = list(life.counts)[-1]
    if len(life.counts) > 1:
        del life.specs()[last]
    plan = life.plan()
    assert not created(plan) and not deleted(plan, "Pod")
    life.step(plan)
    assert over(life) == []
