"""What holds for every job, whatever the order of events: a state machine that plays users, node and faults."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.jobs_builders import NOW, created_pods, env_of, make_job, plan_for
from tests.unit.jobs_kinds import Builder
from tests.unit.jobs_world import World
from trainshed.api.v1.common import JobKind
from trainshed.api.v1.tensorflow import TFJOB
from trainshed.api.v1.xgboost import XGBOOSTJOB
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.resources import PODS

POLICIES = st.sampled_from(["OnFailure", "Always", "ExitCode", "Never"])
WHICH = st.integers(0, 3)
EXIT_CODES = st.sampled_from([0, 1, 127, 137, 143, None])

RUN_POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
        "backoffLimit": st.integers(0, 3),
        "activeDeadlineSeconds": st.integers(0, 60),
        "ttlSecondsAfterFinished": st.integers(0, 60),
        "suspend": st.booleans(),
    },
)


@st.composite
def jobs(draw: Any, *, policy: Any = POLICIES, run_policy: Any = RUN_POLICIES) -> dict[str, Any]:
    """Draw a valid PyTorchJob: with a master, with workers only, or elastic."""
    shape = draw(st.sampled_from(["master", "workers", "elastic"]))
    workers = draw(st.integers(0 if shape == "master" else 1, 3))
    spec = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}} if shape == "elastic" else {}
    return make_job(
        master=1 if shape == "master" else None,
        workers=workers or None,
        policy=draw(policy),
        spec=spec,
        **draw(run_policy),
    )


SHAPES: list[tuple[JobKind, dict[str, Any], dict[str, Any]]] = [
    (TFJOB, {"Worker": 2}, {}),
    (TFJOB, {"Worker": 2, "PS": 1}, {"successPolicy": "AllWorkers"}),
    (TFJOB, {"Chief": 1, "Worker": 1, "Evaluator": 1}, {}),
    (TFJOB, {"Worker": 2, "PS": 1}, {"enableDynamicWorker": True}),
    (XGBOOSTJOB, {"Master": 1}, {}),
    (XGBOOSTJOB, {"Master": 1, "Worker": 2}, {}),
]


@st.composite
def other_jobs(draw: Any) -> dict[str, Any]:
    """Draw a valid job of a kind other than PyTorchJob."""
    kind, replicas, spec = draw(st.sampled_from(SHAPES))
    return Builder(kind).job(replicas, draw(POLICIES), spec=spec, **draw(RUN_POLICIES))


class AnyHistory(RuleBasedStateMachine):
    """Users, node, clock and faults act in any order. Left out: two operators at once, foreign objects."""

    @initialize(job=st.one_of(jobs(), other_jobs()))
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


@given(workers=st.integers(0, 12), nproc=st.sampled_from([None, "auto", "gpu", "1", "4"]))
def test_ranks_are_exactly_zero_to_world_size(workers: int, nproc: str | None) -> None:
    """Over all pods each rank is there once, and all agree on the size of the world."""
    job = make_job(master=1, workers=workers or None, spec={"nprocPerNode": nproc} if nproc else {})
    envs = [dict(env_of(pod)) for pod in created_pods(plan_for(job)).values()]
    assert sorted(int(env["RANK"]) for env in envs) == list(range(workers + 1))
    assert [env["RANK"] for env in envs] == [env["PET_NODE_RANK"] for env in envs]
    processes = int(nproc) if nproc and nproc.isdecimal() else 1
    assert {env["WORLD_SIZE"] for env in envs} == {str((workers + 1) * processes)}


@given(workers=st.integers(0, 12))
def test_ranks_of_xgboost_are_exactly_zero_to_world_size(workers: int) -> None:
    """Over all pods each rank is there once, and the addresses are those of the other pods."""
    builder = Builder(XGBOOSTJOB)
    pods = created_pods(builder.plan(builder.job({"Master": 1, "Worker": workers})))
    envs = [dict(env_of(pod)) for pod in pods.values()]
    assert sorted(int(env["RANK"]) for env in envs) == list(range(workers + 1))
    assert {env["WORLD_SIZE"] for env in envs} == {str(workers + 1)}
    for env in envs:
        addresses = {env["MASTER_ADDR"], *filter(None, env.get("WORKER_ADDRS", "").split(","))}
        assert addresses == set(pods)


@given(
    counts=st.fixed_dictionaries(
        {}, optional={name: st.integers(0, 4) for name in ("Chief", "Evaluator", "PS", "Worker")}
    ),
    dynamic=st.booleans(),
)
def test_all_pods_of_tensorflow_agree_on_who_is_where(counts: dict[str, int], dynamic: bool) -> None:
    """Dense, all know the same cluster, which is all pods; sparse, each knows a part of it. All know themselves."""
    builder = Builder(TFJOB)
    pods = created_pods(builder.plan(builder.job(counts, spec={"enableDynamicWorker": dynamic})))
    told = {
        name: json.loads(dict(env_of(pod))["TF_CONFIG"])
        for name, pod in pods.items()
        if "env" in pod["spec"]["containers"][0]
    }
    assert len(told) == (0 if len(pods) == 1 else len(pods))
    for name, config in told.items():
        task, cluster = config["task"], config["cluster"]
        assert name == f"train-{task['type']}-{task['index']}"
        if dynamic:
            own = cluster["worker"] if task["type"] == "worker" else dict(enumerate(cluster["ps"]))
            if task["type"] in ("worker", "ps"):
                assert set(own.values()) == {f"{name}.ns.svc:2222"}
        else:
            assert cluster[task["type"]][task["index"]] == f"{name}.ns.svc:2222"
            assert {host.partition(".")[0] for hosts in cluster.values() for host in hosts} == set(pods)


@st.composite
def any_world(draw: Any) -> tuple[Builder, dict[str, Any], list[dict[str, Any]]]:
    """Draw a job of another kind, of any spelling and counts, and pods in any state."""
    kind = draw(st.sampled_from([TFJOB, XGBOOSTJOB]))
    builder = Builder(kind)
    types = st.sampled_from([*kind.type_names, "worker", "Helper"])
    replicas = draw(st.dictionaries(types, st.one_of(st.integers(-1, 3), st.just({}))))
    spec = draw(
        st.fixed_dictionaries(
            {}, optional={"successPolicy": st.text(max_size=3), "enableDynamicWorker": st.booleans()}
        )
    )
    job = builder.job(replicas, draw(POLICIES), spec=spec if kind is TFJOB else {}, **draw(RUN_POLICIES))
    phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])
    states = st.tuples(st.sampled_from(kind.type_names), st.integers(0, 3), phases, EXIT_CODES, st.booleans())
    pods = [
        builder.pod(type_, index, phase, exit_code=code, terminating=going)
        for type_, index, phase, code, going in draw(st.lists(states, max_size=6))
    ]
    return builder, job, pods


@given(world=any_world())
def test_no_world_of_any_kind_makes_it_raise_or_plan_a_name_twice(
    world: tuple[Builder, dict[str, Any], list[dict[str, Any]]],
) -> None:
    builder, job, pods = world
    plan = builder.plan(job, *pods)
    names = Counter((a.resource, a.object["metadata"]["name"]) for a in plan.actions if isinstance(a, Create))
    assert max(names.values(), default=1) == 1
    assert not {pod["metadata"]["name"] for pod in pods} & set(created_pods(plan))


@given(job=st.one_of(jobs(), other_jobs()), missing=st.sets(st.integers(0, 3)))
def test_a_view_without_some_pods_repeats_their_creation_unchanged(
    job: dict[str, Any], missing: set[int]
) -> None:
    """A stale view leads to the same names and the same contents, so that the conflict is harmless."""
    job["spec"].get("runPolicy", {}).pop("suspend", None)
    world = World(job, NOW)
    first = created_pods(world.reconcile())
    observed = world.observe()
    kept = [pod for i, pod in enumerate(observed.owned[PODS]) if i not in missing]
    again = created_pods(plan_for(world.job or {}, kept, now=NOW - 1))
    gone = {pod["metadata"]["name"] for i, pod in enumerate(observed.owned[PODS]) if i in missing}
    assert again == {name: first[name] for name in gone}


@given(job=st.one_of(jobs(), other_jobs()))
def test_decide_changes_nothing_that_it_is_given(job: dict[str, Any]) -> None:
    """Objects come from shared caches."""
    world = World(job, NOW)
    world.reconcile()
    for name in world.pods:
        world.start(name)
    observed = world.observe()
    before = copy.deepcopy((observed.job, observed.owned))
    decide(observed)
    assert before == (observed.job, observed.owned)
