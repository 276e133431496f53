"""What a pipeline's run is shown as: the state of steps, the failure in the author's words, runs that go on."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.tekton_world import stored
from trainshed.kube.meta.objects import Object
from trainshed.pipelines.emit import local
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import Block, Input, Pipeline, Step
from trainshed.pipelines.notebook.literals import Parameter
from trainshed.pipelines.notebook.settings import Settings
from trainshed.sdk.pipelineruns.again import with_data_of
from trainshed.sdk.pipelineruns.data import data_claim
from trainshed.sdk.pipelineruns.ended import Failure, PipelineOutcome, failure_in, summary
from trainshed.sdk.pipelineruns.steps import StepState, states

PIPELINE = Pipeline(
    Settings(name="sums"),
    (),
    (
        Step("load_it", (Block("rows = [1]"),), outputs=("rows",)),
        Step("total", (Block("t = sum(rows)"),), ("load_it",), (Input("rows", "load_it", "rows"),)),
        Step("last", (Block("pass"),), ("total",)),
    ),
)


def child(task: str, status: str, reason: str, **more: Any) -> Object:
    labels = {"tekton.dev/pipelineTask": task}
    condition = {"type": "Succeeded", "status": status, "reason": reason, "message": "why"}
    return stored(
        {"metadata": {"name": task, "labels": labels}, "status": {"conditions": [condition], **more}}
    )


def test_steps_have_the_state_of_their_children_and_their_place_in_the_graph() -> None:
    done = child(
        "load-it",
        "True",
        "Succeeded",
        startTime="2026-01-01T00:00:00Z",
        completionTime="2026-01-01T00:00:05Z",
    )
    failed = child(
        "total",
        "False",
        "StepFailed",
        startTime="2026-01-01T00:00:05Z",
        completionTime="2026-01-01T00:00:06Z",
    )
    run = {"status": {"skippedTasks": [{"name": "last", "reason": "PipelineRun was stopping"}]}}
    first, second, third = states(PIPELINE, run, [done, failed])
    assert (first.name, first.state, first.seconds(0), first.level) == ("load_it", "succeeded", 5, 0)
    assert (second.state, second.detail, second.level) == ("failed", "why", 1)
    assert (third.state, third.detail, third.level) == ("skipped", "PipelineRun was stopping", 2)


def test_a_step_that_is_tried_again_says_which_attempt_it_is() -> None:
    again = child("load-it", "Unknown", "Running", startTime="2026-01-01T00:00:00Z", retriesStatus=[{}])
    first, *_ = states(PIPELINE, {}, [again])
    assert (first.state, first.detail) == ("running", "attempt 2")
    first, *_ = states(PIPELINE, {}, [child("load-it", "Unknown", "Running")])
    assert (first.state, first.detail) == ("running", "")
    first, *_ = states(PIPELINE, {}, [child("load-it", "False", "Failed", retriesStatus=[{}])])
    assert (first.state, first.detail) == ("failed", "why")


def test_what_failed_is_told_as_the_author_knows_it() -> None:
    log = [
        "loading",
        "error: step total, cell 4, line 2: ZeroDivisionError: by zero",
        "",
        "Cell In[4], line 2",
        "---> 2 1/0",
    ]
    failure = failure_in("total", log)
    assert failure == Failure(
        "total", "ZeroDivisionError: by zero", 4, 2, ("Cell In[4], line 2", "---> 2 1/0")
    )
    assert failure.lines()[0] == "step total failed, cell 4, line 2: ZeroDivisionError: by zero"
    assert failure_in("total", ["nothing said"]) is None


def test_data_that_cannot_be_saved_has_no_line() -> None:
    failure = failure_in("total", ["error: step total: cannot save lock (cell 3): a thread.lock"])
    assert failure is not None
    assert (failure.message, failure.cell) == ("cannot save lock (cell 3): a thread.lock", None)


def test_the_summary_begins_with_what_failed() -> None:
    step = StepState("total", "failed")
    ended = PipelineOutcome(
        "sums", "default", False, "Failed", "", (step,), seconds=3, failures=(Failure("total", "boom", 1),)
    )
    assert summary(ended)[0] == "step total failed, cell 1: boom"
    done = PipelineOutcome(
        "sums",
        "default",
        True,
        "Succeeded",
        "",
        (StepState("total", "succeeded"),),
        {"n": "3"},
        {"acc": "0.9"},
    )
    assert summary(done) == [
        "sums succeeded: 1 of 1 steps in 0 s",
        "  parameter  n = 3",
        "  metric     acc = 0.9",
    ]


def test_a_run_that_goes_on_has_the_later_steps_and_the_data_of_the_one_before() -> None:
    before = stored(
        {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "sums"}, "spec": {}}, "u1"
    )
    before["spec"] = {"workspaces": [{"name": "data", "volumeClaimTemplate": {}}]}
    claim = data_claim(before)
    made = with_data_of(
        local.emit(PIPELINE, Options(run_name="sums")), before, {"total": True, "last": True}, claim
    )
    (run,) = made
    tasks = run["spec"]["pipelineSpec"]["tasks"]
    assert [(t["name"], t.get("runAfter")) for t in tasks] == [("total", None), ("last", ["total"])]
    assert {"name": "trainshed-run", "value": "sums"} in tasks[0]["params"]
    assert run["spec"]["workspaces"] == [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    assert "name" not in run["metadata"]
    assert run["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert data_claim(run) == claim


def test_a_run_that_goes_on_has_the_parameters_of_the_one_before_that_are_not_given_again() -> None:
    parameters = tuple(Parameter(name, "int", 1) for name in ("left", "other", "power"))
    pipeline = msgspec.structs.replace(PIPELINE, parameters=parameters)
    earlier = {"left": 3, "power": 4, "forgotten": 5}
    (before,) = local.emit(pipeline, Options(run_name="sums"))
    before = stored(before, "u1")
    before["spec"]["params"] = [{"name": name, "value": str(value)} for name, value in earlier.items()]
    made = local.emit(pipeline, Options(run_name="sums", parameters={"power": "9"}))
    (run,) = with_data_of(made, before, {"total": True}, "claim")
    assert run["spec"]["params"] == [{"name": "left", "value": "3"}, {"name": "power", "value": "9"}]


def test_here_nothing_ends_a_run_but_its_own_limit_and_four_steps_run_at_once() -> None:
    (run,) = local.emit(PIPELINE, Options(run_name="sums"))
    assert run["spec"]["timeouts"] == {"pipeline": "0"}
    assert run["metadata"]["annotations"]["trainshed.dev/tasks-at-once"] == "4"


def test_a_run_that_goes_on_has_the_results_of_its_own_steps() -> None:
    before = stored(local.emit(PIPELINE, Options(run_name="sums"))[-1], "u1")
    made = local.emit(PIPELINE, Options(run_name="sums"))
    mine, other, plain = (
        {"name": name, "value": value}
        for name, value in (
            ("a", "$(tasks.total.results.x)"),
            ("b", "$(tasks.load-it.results.x)"),
            ("c", "plain"),
        )
    )
    made[-1]["spec"]["pipelineSpec"]["results"] = [mine, other, plain]
    (run,) = with_data_of(made, before, {"total": True}, "claim")
    assert run["spec"]["pipelineSpec"]["results"] == [mine]
