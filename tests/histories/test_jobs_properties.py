"""What holds for every job, whatever the order of events: a state machine that plays users, node and faults."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.fakes.plans import written
from tests.unit.jobs_builders import NOW, created_pods, make_job
from tests.unit.jobs_strategies import EXIT_CODES, pods_of, stored_jobs, valid_jobs
from tests.unit.jobs_world import World
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Apply, Create, Delete
from trainshed.kube.meta.resources import PODS, Resource

WHICH = st.integers(0, 3)


class AnyHistory(RuleBasedStateMachine):
    """Users, node, clock and faults act in any order. Left out: two operators at once, foreign objects."""

    @initialize(job=valid_jobs())
    def begin(self, job: dict[str, Any]) -> None:
        self.world = World(job, NOW)
        self.ended: str | None = None
        self.pods_at_end: dict[str, int] = {}

    def alive(self) -> bool:
        return self.world.job is not None

    def pick(self, which: int, **state: Any) -> str:
        """Return one of the pods in this state, an unknown name if there is none."""
        names = self.world.named(**state)
        return names[which % len(names)] if names else "none"

    @precondition(alive)
    @rule(stale=st.booleans())
    def reconcile(self, stale: bool) -> None:
        before = set(self.world.pods)
        plan = self.world.reconcile(stale=stale)
        if not stale:
            assert not before & set(created_pods(plan)), "a pod that is there is created again"

    @precondition(alive)
    @rule()
    def reconcile_until_quiet(self) -> None:
        self.world.settle()

    @precondition(alive)
    @rule(actions=st.integers(0, 5), stale=st.booleans())
    def die_in_reconcile(self, actions: int, stale: bool) -> None:
        self.world.reconcile(stale=stale, stop_after=actions)

    @rule()
    def start_all(self) -> None:
        for name in self.world.named(phase="Pending"):
            self.world.start(name)

    @rule(which=WHICH)
    def start(self, which: int) -> None:
        self.world.start(self.pick(which, phase="Pending"))

    @rule(which=WHICH, exit_code=EXIT_CODES)
    def end(self, which: int, exit_code: int | None) -> None:
        self.world.end(self.pick(which, phase="Running"), exit_code)

    @rule(which=WHICH)
    def restart_container(self, which: int) -> None:
        self.world.restart_container(self.pick(which, phase="Running"))

    @rule(which=WHICH)
    def drain(self, which: int) -> None:
        self.world.drain(self.pick(which, terminating=False))

    @rule(which=WHICH)
    def reap(self, which: int) -> None:
        self.world.reap(self.pick(which, terminating=True))

    @rule()
    def reap_all(self) -> None:
        for name in self.world.named(terminating=True):
            self.world.reap(name)

    @rule(seconds=st.sampled_from([0.4, 1, 10, 40]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @precondition(alive)
    @rule(suspend=st.booleans())
    def set_suspend(self, suspend: bool) -> None:
        assert self.world.job is not None
        self.world.excuse_all()
        self.world.job["spec"].setdefault("runPolicy", {})["suspend"] = suspend

    def specs(self) -> dict[str, Any]:
        assert self.world.job is not None
        specs: dict[str, Any] = self.world.job["spec"][self.world.kind.replica_specs_field]
        return specs

    @precondition(lambda self: self.alive() and "Worker" in self.specs())
    @rule(replicas=st.integers(1, 4))
    def scale(self, replicas: int) -> None:
        assert self.world.job is not None
        self.world.excuse_all()
        self.specs()["Worker"]["replicas"] = replicas

    @invariant()
    def conditions_are_legal(self) -> None:
        """One of each type; Running and Restarting replace each other; a finished job does not run."""
        if not self.alive():
            return
        assert self.world.job is not None
        listed = self.world.job.get("status", {}).get("conditions", [])
        conditions = self.world.conditions()
        assert len(listed) == len(conditions), "a condition type is there twice"
        if not listed:
            return
        assert conditions["Created"] == "True"
        assert not {"Running", "Restarting"} <= set(conditions), "Running and Restarting at once"
        assert [conditions.get("Succeeded"), conditions.get("Failed")].count("True") <= 1, "two outcomes"
        if self.world.outcome() is not None:
            assert conditions.get("Running") != "True", "finished and running"
            assert self.world.job["status"].get("completionTime"), "finished without a time"

    @invariant()
    def an_outcome_is_final(self) -> None:
        """Succeeded and Failed are never cleared, and no pod is created after them."""
        if self.ended is not None and self.alive():
            assert self.world.outcome() == self.ended, "an outcome was taken back"
            assert self.world.incarnations == self.pods_at_end, "a pod was created after the end"
        elif self.alive() and self.world.outcome() is not None:
            self.ended = self.world.outcome()
            self.pods_at_end = dict(self.world.incarnations)

    def teardown(self) -> None:
        """When the world stands still the plan runs dry: no action, same status, also a moment later."""
        if not hasattr(self, "world") or not self.alive():
            return
        self.world.settle()
        for name in list(self.world.pods):
            self.world.reap(name)
        self.world.settle()
        if not self.alive():
            return
        observed = self.world.observe()
        again = decide(observed)
        assert not again.actions and again.status is None, "decide is not idempotent after its own plan"
        if again.requeue_after is None or again.requeue_after > 1:
            self.world.now += 1
            later = decide(self.world.observe())
            assert not later.actions and later.status is None, "the status depends on when it is looked at"
        self.nothing_runs_after_the_end()

    def nothing_runs_after_the_end(self) -> None:
        """A job that is over stays over, even if all its pods are taken away."""
        if self.world.outcome() is None:
            return
        before = dict(self.world.incarnations)
        for name in list(self.world.pods):
            self.world.drain(name)
            self.world.reap(name)
        self.world.settle()
        assert self.world.incarnations == before, "a pod was created after the end"


AnyHistory.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyHistory = AnyHistory.TestCase


def _play(job: dict[str, Any], scripts: dict[str, list[int | None]], choices: list[int]) -> World:
    """Run every pod through its script of exit codes, interleaved as `choices` say, and let it settle."""
    world = World(job, NOW)
    world.settle()
    left = {name: list(codes) for name, codes in scripts.items()}
    picks = iter(choices)
    while any(left.values()):
        name = sorted(name for name, codes in left.items() if codes)[
            next(picks, 0) % sum(map(bool, left.values()))
        ]
        if name not in world.pods:
            world.reap(name)
            world.settle()
        if name not in world.pods:  # its turn never comes: the job is over
            left[name] = []
            continue
        world.start(name)
        if next(picks, 1) % 2:
            world.reconcile()
        world.end(name, left[name].pop(0))
        if next(picks, 1) % 2 or left[name]:
            world.settle()
        world.reap(name)
    world.settle()
    return world


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_order_of_events_does_not_matter(data: st.DataObject) -> None:
    """Workers that fail as often in any interleaving end in the same state.

    Compared without times and without Running, which is there only if a reconcile fell in that moment.
    """
    workers = data.draw(st.integers(1, 3))
    job = make_job(workers=workers, policy=data.draw(st.sampled_from(["OnFailure", "ExitCode"])))
    failures = st.lists(st.sampled_from([137, 143, None]), max_size=2)
    scripts: dict[str, list[int | None]] = {
        f"train-worker-{i}": [*data.draw(failures), 0] for i in range(workers)
    }
    orders = st.lists(st.integers(0, 11), max_size=40)
    first = _play(job, scripts, data.draw(orders))
    second = _play(job, scripts, data.draw(orders))
    for world in (first, second):
        assert world.outcome() == "Succeeded"
        assert world.incarnations == {name: len(codes) for name, codes in scripts.items()}
    assert _final(first) == _final(second)


def _final(world: World) -> Any:
    assert world.job is not None
    return set(world.pods), set(world.services), world.outcome(), world.job["status"]["replicaStatuses"]


@st.composite
def worlds(draw: Any, job: Object) -> dict[Resource, list[Object]]:
    """Draw what stands there: pods in any state, and of all else that the job would make what is ours, or is not."""

    def other(obj: Object) -> Object:
        metadata = {**obj["metadata"], "uid": "other"}
        match draw(st.sampled_from(["ours", "foreign", "going"])):
            case "foreign":
                metadata["ownerReferences"] = []
            case "going":
                metadata["deletionTimestamp"] = "2023-11-14T22:13:20Z"
        return {**obj, "metadata": metadata}

    owned: dict[Resource, list[Object]] = {PODS: draw(pods_of(job))}
    for action in decide(Observed(job=job, now=NOW)).actions:
        if isinstance(action, Create | Apply) and action.resource != PODS and draw(st.booleans()):
            owned.setdefault(action.resource, []).append(other(action.object))
    return owned


@settings(max_examples=300)
@given(data=st.data(), job=st.one_of(valid_jobs(), stored_jobs()))
def test_no_world_of_any_kind_makes_it_raise_or_plan_a_name_twice(data: st.DataObject, job: Object) -> None:
    owned = data.draw(worlds(job))
    plan = decide(Observed(job=job, owned=owned, now=NOW))
    made = Counter(
        (a.resource, a.object["metadata"]["name"]) for a in plan.actions if isinstance(a, Create | Apply)
    )
    gone = Counter((a.resource, a.name) for a in plan.actions if isinstance(a, Delete))
    assert max([*made.values(), *gone.values()], default=1) == 1
    assert not made.keys() & gone.keys(), "made and deleted at once"
    assert not {pod["metadata"]["name"] for pod in owned[PODS]} & set(created_pods(plan))


@settings(max_examples=200)
@given(data=st.data(), job=valid_jobs())
def test_any_world_settles(data: st.DataObject, job: Object) -> None:
    """Whatever stands there, a few plans later there is nothing left to do, and so it stays."""
    world = World(job, NOW)
    world.pods = {pod["metadata"]["name"]: pod for pod in data.draw(pods_of(job))}
    world.excuse_all()
    world.settle()
    for name in world.named(terminating=True):
        world.reap(name)
    world.settle()
    if world.job is not None:
        again = decide(world.observe())
        assert not again.actions and again.status is None


@given(job=valid_jobs(), missing=st.sets(st.integers(0, 3)))
def test_a_view_without_some_pods_repeats_their_creation_unchanged(
    job: dict[str, Any], missing: set[int]
) -> None:
    """A stale view leads to the same names and the same contents, so that the conflict is harmless."""
    job["spec"].get("runPolicy", {}).pop("suspend", None)
    world = World(job, NOW)
    first = created_pods(world.reconcile())
    observed = world.observe()
    kept = [pod for i, pod in enumerate(observed.owned[PODS]) if i not in missing]
    partial = msgspec.structs.replace(observed, owned={**observed.owned, PODS: kept}, now=NOW - 1)
    again = created_pods(decide(partial))
    gone = {pod["metadata"]["name"] for i, pod in enumerate(observed.owned[PODS]) if i in missing}
    assert again == {name: first[name] for name in gone}


@given(job=valid_jobs())
def test_decide_changes_nothing_that_it_is_given(job: dict[str, Any]) -> None:
    """Objects come from shared caches."""
    world = World(job, NOW)
    world.reconcile()
    for name in world.pods:
        world.start(name)
    observed = world.observe()
    before = copy.deepcopy((observed.job, observed.owned))
    written(decide(observed))
    assert before == (observed.job, observed.owned)
