"""Tasks prepared ahead, as plain data: which, how many, whose turn comes, what gives way, what goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tekton_world import START, PipelineWorld, TaskWorld, pipeline_run, reason, task, task_run
from trainshed.kube.meta.objects import Object, is_terminating, labels_of
from trainshed.kube.meta.times import format_time
from trainshed.tekton import ahead, conditions, taskrun

WAITS = {"trainshed.dev/waits-for-ready": "true"}
STEP = {"name": "main", "image": "busybox", "command": ["wait"]}


def waiting(name: str, *after: str, step: Any = None, **fields: Any) -> Object:
    """Return a task whose program waits for its turn."""
    spec = {"metadata": {"annotations": WAITS}, "steps": [{**STEP, **(step or {})}]}
    return task(name, *after, taskSpec=spec, **fields)


class Ahead(PipelineWorld):
    """A run of tasks that may be prepared, with so many at once."""

    def __init__(self, *tasks: Object, at_once: int = 4, **spec: Any) -> None:
        annotations = {"trainshed.dev/tasks-at-once": str(at_once)}
        elsewhere = {"elsewhere": {"metadata": {"name": "elsewhere"}, "spec": {"steps": [STEP]}}}
        run = pipeline_run({"pipelineSpec": {"tasks": list(tasks)}, **spec}, annotations=annotations)
        super().__init__(run, tasks=elsewhere)

    def prepared(self, *, going: bool = False) -> list[str]:
        """Return the tasks that wait for their turn, or those of them that are being deleted."""
        return [
            labels_of(child)["tekton.dev/pipelineTask"]
            for child in self.children.values()
            if ahead.is_prepared(child) and is_terminating(child) == going
        ]

    def begun(self) -> list[str]:
        """Return the tasks whose turn has come."""
        return [
            labels_of(child)["tekton.dev/pipelineTask"]
            for child in self.children.values()
            if not ahead.is_prepared(child)
        ]

    def on(self) -> list[str]:
        """Return the tasks whose turn has come, and which are not over."""
        return [name for name in self.begun() if not conditions.is_done(self.child(name))]

    def child(self, name: str) -> Object:
        (found,) = [c for c in self.children.values() if labels_of(c)["tekton.dev/pipelineTask"] == name]
        return found

    def running(self, *names: str) -> None:
        """Let tasks whose turn has come run: these, or all."""
        for name in names or self.on():
            status = self.child(name).setdefault("status", {"startTime": format_time(self.now)})
            conditions.mark(status, "Unknown", "Running", "", self.now)

    def gone(self) -> None:
        """Let go what is being deleted."""
        self.children = {n: c for n, c in self.children.items() if not is_terminating(c)}


def chain(length: int) -> list[Object]:
    return [waiting(f"t{i}", *([f"t{i - 1}"] if i else [])) for i in range(length)]


def test_what_comes_next_is_prepared_once_what_is_on_runs_and_within_the_limit() -> None:
    it = Ahead(*chain(6))
    it.settle()
    assert (it.on(), it.prepared()) == (["t0"], [])
    it.running()
    it.settle()
    assert (it.on(), it.prepared()) == (["t0"], ["t1", "t2", "t3"])
    assert it.children["run-t1"]["spec"]["status"] == "TaskRunPending"
    assert [c["name"] for c in it.status["childReferences"]] == ["run-t0"]
    assert "Incomplete: 6" in it.status["conditions"][0]["message"]


def test_a_turn_is_given_and_the_window_moves_on() -> None:
    it = Ahead(*chain(6))
    it.settle()
    it.running()
    it.settle()
    it.end("t0")
    it.settle()
    assert (it.on(), it.prepared()) == (["t1"], ["t2", "t3"])
    assert "status" not in it.children["run-t1"]["spec"]
    assert [c["name"] for c in it.status["childReferences"]] == ["run-t0", "run-t1"]
    it.running()
    it.settle()
    assert it.prepared() == ["t2", "t3", "t4"]


@pytest.mark.parametrize(
    "unfit",
    [
        task("b", "a"),
        waiting("b", "a", step={"computeResources": {"requests": {"cpu": "1"}}}),
        waiting("b", "a", step={"timeout": "5s"}),
        waiting("b", "a", when=[{"input": "x", "operator": "in", "values": ["x"]}]),
        waiting("b", "a", params=[{"name": "n", "value": "$(tasks.a.results.n)"}]),
        waiting("b", "a", matrix={"params": [{"name": "n", "value": ["1", "2"]}]}),
        {"name": "b", "runAfter": ["a"], "taskRef": {"name": "elsewhere"}},
        {
            "name": "b",
            "runAfter": ["a"],
            "taskSpec": {"apiVersion": "trainshed.dev/v1", "kind": "X", "spec": {}},
        },
    ],
    ids=["says nothing", "asks", "timed", "when", "result", "matrix", "reference", "custom"],
)
def test_only_what_is_known_and_asks_for_nothing_is_prepared(unfit: Object) -> None:
    it = Ahead(waiting("a"), unfit)
    it.settle()
    it.running()
    it.settle()
    assert it.started() == ["a"]


@pytest.mark.parametrize("asked", ["stepSpecs", "computeResources"])
def test_what_the_run_asks_for_a_task_counts_too(asked: str) -> None:
    resources = {"requests": {"cpu": "1"}}
    own = {"stepSpecs": [{"name": "main", "computeResources": resources}], "computeResources": resources}
    it = Ahead(*chain(2), taskRunSpecs=[{"pipelineTaskName": "t1", asked: own[asked]}])
    it.settle()
    it.running()
    it.settle()
    assert it.prepared() == []


def test_one_at_a_time_prepares_nothing() -> None:
    it = Ahead(*chain(2), at_once=1)
    it.settle()
    it.running()
    it.settle()
    assert it.started() == ["t0"]


def test_what_may_start_takes_the_place_of_what_is_only_prepared_once_that_is_gone() -> None:
    """The farthest goes first, and no more run than may while it still has its place."""
    fan = [task(f"c{i}", "b") for i in range(2)]
    it = Ahead(waiting("a"), task("b"), waiting("x", "a"), waiting("y", "x"), *fan)
    it.settle()
    it.running()
    it.settle()
    assert (it.on(), it.prepared()) == (["a", "b"], ["x", "y"])
    it.end("b")
    it.settle()
    assert (it.on(), it.prepared(), it.prepared(going=True)) == (["a", "c0"], ["x"], ["y"])
    it.gone()
    it.settle()
    assert (it.on(), it.prepared()) == (["a", "c0", "c1"], ["x"])


def test_a_step_that_does_not_get_to_run_makes_all_give_way() -> None:
    it = Ahead(*chain(4))
    it.settle()
    it.running()
    it.settle()
    it.end("t0")
    it.settle()
    plan = it.step()
    assert it.prepared() == ["t2", "t3"]
    assert plan.requeue_after == pytest.approx(ahead.PATIENCE_SECONDS)
    it.child("t1")["status"] = {"startTime": format_time(it.now)}
    it.now += ahead.PATIENCE_SECONDS
    it.settle()
    assert (it.on(), it.prepared(going=True)) == (["t1"], ["t2", "t3"])
    it.gone()
    it.settle()
    assert it.prepared() == []
    it.running()
    it.settle()
    assert it.prepared() == ["t2", "t3"]


@pytest.mark.parametrize("how", ["fails", "cancelled", "stopped", "out of time"])
def test_what_is_not_needed_after_all_goes_and_leaves_nothing(how: str) -> None:
    it = Ahead(*chain(3), timeouts={"pipeline": "60s"})
    it.settle()
    it.running()
    it.settle()
    assert it.prepared() == ["t1", "t2"]
    if how == "fails":
        it.end("t0", "False")
    elif how == "out of time":
        it.now += 61
    else:
        it.run["spec"]["status"] = "Cancelled" if how == "cancelled" else "StoppedRunFinally"
    it.settle()
    it.end("t0", "False", why="TaskRunCancelled")
    it.settle()
    assert reason(it.run)[0] == "False"
    assert (it.begun(), it.prepared(going=True)) == (["t0"], ["t1", "t2"])
    it.gone()
    it.settle()
    assert [c["name"] for c in it.status["childReferences"]] == ["run-t0"]


def test_what_is_behind_a_task_that_is_not_wanted_goes_too() -> None:
    never = [{"input": "x", "operator": "in", "values": ["y"]}]
    it = Ahead(waiting("a"), task("b", "a", when=never), waiting("c", "b", retries=1), waiting("d", "c"))
    it.settle()
    it.running()
    it.settle()
    assert it.prepared() == ["c", "d"]
    it.end("a")
    it.settle()
    assert (it.on(), it.skipped()) == (["c"], {"b": "When Expressions evaluated to false"})


def test_what_somebody_deletes_is_made_again_and_has_its_turn_only_then() -> None:
    it = Ahead(*chain(2))
    it.settle()
    it.running()
    it.settle()
    it.child("t1")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    it.end("t0")
    it.settle()
    assert (it.begun(), it.prepared(going=True)) == (["t0"], ["t1"])
    it.gone()
    it.settle()
    assert it.on() == ["t1"]


_DAG = st.lists(st.sets(st.integers(0, 6), max_size=3), min_size=1, max_size=8).map(
    lambda sets: [sorted(p for p in parents if p < i) for i, parents in enumerate(sets)]
)


@given(
    dag=_DAG,
    limit=st.integers(1, 5),
    moves=st.lists(st.sampled_from(("run", "end", "gone", "later")), max_size=40),
    choices=st.randoms(use_true_random=False),
    plain=st.sets(st.integers(0, 7), max_size=3),
    failing=st.sets(st.integers(0, 7), max_size=1),
)
def test_whatever_happens_in_whatever_order_every_task_has_one_turn_after_its_parents(
    dag: Any, limit: int, moves: list[str], choices: Any, plain: set[int], failing: set[int]
) -> None:
    """Never more at once than the limit, prepared ones and those on their way out among them; nothing is left over."""
    tasks = [(task if i in plain else waiting)(f"t{i}", *(f"t{p}" for p in ps)) for i, ps in enumerate(dag)]
    parents = {t["name"]: set(t.get("runAfter", ())) for t in tasks}
    it = Ahead(*tasks, at_once=limit)
    done: set[str] = set()
    for what in (*moves, *("gone", "run", "end") * 30):
        it.step()
        assert len(it.on()) + len(it.prepared()) + len(it.prepared(going=True)) <= limit
        for name in it.begun():
            assert parents[name] <= done
        if reason(it.run)[0] != "Unknown":
            break
        if what == "run" and it.on():
            it.running(choices.choice(it.on()))
        elif what == "end" and it.on():
            name = choices.choice(it.on())
            it.end(name, "False" if int(name[1:]) in failing else "True")
            done.add(name)
        elif what == "gone":
            it.gone()
        elif what == "later":
            it.now += 3
    assert reason(it.run)[0] != "Unknown", "it never ends"
    it.step()
    it.gone()
    assert sorted(it.begun()) == sorted(done)
    assert it.prepared() == []
    if not {int(name[1:]) for name in done} & failing:
        assert done == set(parents)


def pending() -> TaskWorld:
    """A TaskRun that waits for its turn."""
    return TaskWorld(
        task_run(
            {"taskSpec": {"steps": [STEP]}, "status": "TaskRunPending", "timeout": "60s"}, annotations=WAITS
        )
    )


def turn(it: TaskWorld) -> None:
    it.run = {**it.run, "spec": {k: v for k, v in it.run["spec"].items() if k != "status"}}


def ready(it: TaskWorld) -> str | None:
    found: str | None = it.pod["metadata"]["annotations"].get("tekton.dev/ready")
    return found


def test_a_pod_starts_before_its_turn_and_the_run_when_it_comes() -> None:
    it = pending()
    it.step()
    assert (list(it.pods), ready(it)) == (["run-pod"], None)
    assert reason(it.run) == ("Unknown", "TaskRunPending")
    assert set(it.status) == {"conditions"}
    it.running()
    it.pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = format_time(START)
    it.now += 1000
    assert it.step().actions == ()
    turn(it)
    it.step()
    assert ready(it) == "READY"
    assert reason(it.run) == ("Unknown", "Running")
    assert it.status["startTime"] == format_time(it.now)
    assert it.status["steps"][0]["running"]["startedAt"] == format_time(it.now)
    assert it.step().requeue_after == pytest.approx(60)


def test_others_that_are_pending_have_no_pod() -> None:
    it = TaskWorld(task_run({"taskSpec": {"steps": [STEP]}, "status": "TaskRunPending"}))
    it.step()
    assert it.pods == {}


@pytest.mark.parametrize("how", ["ended", "never started"])
def test_a_prepared_pod_that_is_lost_is_replaced_when_its_turn_comes(how: str) -> None:
    it = pending()
    it.step()
    if how == "ended":
        it.ended(("main", 137, []))
    else:
        waits = {"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}}
        it.pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "step-main", "state": waits}]}
    assert it.step().actions == ()
    turn(it)
    it.step()
    assert is_terminating(it.pod)
    assert reason(it.run) == ("Unknown", "Started")
    it.step()
    it.pods.clear()
    it.step()
    assert ready(it) == "READY"
    it.ended(("main", 0, []))
    it.step()
    assert reason(it.run) == ("True", "Succeeded")
    assert "retriesStatus" not in it.status


def test_a_pod_that_had_its_turn_has_no_other_whatever_its_annotations_say() -> None:
    it = pending()
    it.step()
    turn(it)
    it.running()
    it.step()
    del it.pod["metadata"]["annotations"]["tekton.dev/ready"]
    it.ended(("main", 137, []))
    it.step()
    assert reason(it.run) == ("False", "StepFailed")
    assert not is_terminating(it.pod)


def test_a_run_killed_between_its_start_and_the_turn_of_its_pod_goes_on() -> None:
    it = pending()
    it.step()
    it.running()
    turn(it)
    it.run = {**it.run, "status": taskrun.decide(taskrun.Observed(it.run, [it.pod], now=it.now)).status}
    assert ready(it) is None
    it.step()
    assert ready(it) == "READY"


def test_a_prepared_run_that_is_cancelled_takes_its_pod_along() -> None:
    it = pending()
    it.step()
    it.run["spec"]["status"] = "TaskRunCancelled"
    it.step()
    assert is_terminating(it.pod)
    it.pods.clear()
    it.step()
    assert reason(it.run) == ("False", "TaskRunCancelled")


def test_what_starts_in_the_same_turn_has_its_place_before_what_lacks_one() -> None:
    """Of three places one is left for x; p has had its own, so that q gives way to y."""
    it = Ahead(waiting("a"), task("x", "a"), task("y", "a"), waiting("p", "a"), waiting("q", "p"), at_once=3)
    it.settle()
    it.running()
    it.settle()
    assert it.prepared() == ["p", "q"]
    it.end("a")
    it.step()
    assert (sorted(it.on()), it.prepared(), it.prepared(going=True)) == (["p", "x"], [], ["q"])


def test_what_is_as_near_is_prepared_in_the_order_of_the_pipeline() -> None:
    """`far` waits for a task that has begun, `near` for one that waited: both are one task from their turn."""
    it = Ahead(
        task("over"), task("root"), task("later", "over"), *(waiting(n, "root") for n in "zyx"), at_once=4
    )
    it.settle()
    it.running("root")
    it.end("over")
    it.settle()
    it.running()
    it.settle()
    assert (it.on(), it.prepared()) == (["root", "later"], ["z", "y"])


def test_what_is_nearer_is_prepared_first_wherever_it_stands() -> None:
    it = Ahead(*reversed(chain(6)))
    it.settle()
    it.running()
    it.settle()
    assert (it.on(), it.prepared()) == (["t0"], ["t1", "t2", "t3"])


@pytest.mark.parametrize("first", ["of-root", "of-later"])
def test_a_task_that_has_begun_is_as_far_whatever_ended_before_it(first: str) -> None:
    behind = {"of-root": "root", "of-later": "later"}
    waits = sorted(
        (waiting(name, parent) for name, parent in behind.items()), key=lambda t: t["name"] != first
    )
    it = Ahead(task("over"), task("root"), task("later", "over"), *waits, at_once=3)
    it.settle()
    it.end("over")
    it.settle()
    it.running()
    it.settle()
    assert (it.on(), it.prepared()) == (["root", "later"], [first])


def test_patience_lasts_to_its_last_moment_and_is_had_only_with_what_gives_way() -> None:
    it = Ahead(*chain(3))
    it.settle()
    assert (it.step().requeue_after or 0) > ahead.PATIENCE_SECONDS, "nothing is prepared that could give way"
    it.running()
    it.settle()
    it.end("t0")
    it.settle()
    it.child("t1")["status"] = {"startTime": format_time(it.now)}
    it.now += ahead.PATIENCE_SECONDS - 0.5
    plan = it.step()
    assert (it.prepared(), plan.requeue_after) == (["t2"], pytest.approx(0.5))
