"""What a PipelineRun does next, as plain data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from tests.unit.tekton_world import PipelineWorld, pipeline_run, reason, stored, task


def world(*tasks: Any, spec: Any = None, **pipeline: Any) -> PipelineWorld:
    return PipelineWorld(pipeline_run({"pipelineSpec": {"tasks": list(tasks), **pipeline}, **(spec or {})}))


def test_tasks_start_in_their_order_and_the_run_succeeds() -> None:
    it = world(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))
    it.settle()
    assert it.started() == ["a"]
    assert reason(it.run) == ("Unknown", "Running")
    assert it.status["conditions"][0]["message"] == (
        "Tasks Completed: 0 (Failed: 0, Cancelled 0), Incomplete: 4, Skipped: 0"
    )
    it.end("a")
    it.settle()
    assert it.started() == ["a", "b", "c"]
    it.end("b")
    it.settle()
    assert "d" not in it.started()
    it.end("c")
    it.settle()
    it.end("d")
    it.settle()
    assert reason(it.run) == ("True", "Succeeded")
    assert [r["name"] for r in it.status["childReferences"]] == ["run-a", "run-b", "run-c", "run-d"]
    assert it.status["completionTime"] == "2026-01-01T00:00:00Z"


def test_children_carry_labels_owner_and_account_as_tekton_writes_them() -> None:
    it = PipelineWorld(
        pipeline_run(
            {
                "pipelineSpec": {"tasks": [task("a", retries=2, timeout="5m")]},
                "taskRunTemplate": {"serviceAccountName": "builder"},
            },
            labels={"team": "vision"},
        )
    )
    it.settle()
    child = it.children["run-a"]
    assert child["metadata"]["labels"] == {
        "team": "vision",
        "app.kubernetes.io/managed-by": "tekton-pipelines",
        "tekton.dev/pipeline": "run",
        "tekton.dev/pipelineRun": "run",
        "tekton.dev/pipelineRunUID": "uid",
        "tekton.dev/pipelineTask": "a",
        "tekton.dev/memberOf": "tasks",
    }
    assert child["metadata"]["ownerReferences"][0]["controller"] is True
    assert child["spec"]["serviceAccountName"] == "builder"
    assert (child["spec"]["retries"], child["spec"]["timeout"]) == (2, "5m")


def test_a_failure_stops_what_has_not_started_and_finally_runs() -> None:
    it = world(task("a"), task("b"), task("c", "b"), **{"finally": [task("last")]})
    it.settle()
    it.end("a", "False")
    it.settle()
    assert it.started() == ["a", "b"]
    it.end("b")
    it.settle()
    assert it.started() == ["a", "b", "last"]
    it.end("last")
    it.settle()
    assert reason(it.run) == ("False", "Failed")
    assert it.skipped() == {"c": "PipelineRun was stopping"}
    assert it.children["run-last"]["metadata"]["labels"]["tekton.dev/memberOf"] == "finally"


def test_a_failure_that_may_happen_is_counted_and_no_failure_of_the_run() -> None:
    it = world(task("a", onError="continue"), task("b", "a"))
    it.settle()
    it.end("a", "False")
    it.settle()
    it.end("b")
    it.settle()
    assert reason(it.run) == ("True", "Succeeded")
    assert it.status["conditions"][0]["message"] == (
        "Tasks Completed: 2 (Failed: 1 (Ignored: 1), Cancelled 0), Skipped: 0"
    )


def test_the_reason_of_a_task_is_that_of_its_first_run_which_has_not_succeeded() -> None:
    params = [{"name": "why", "value": "$(tasks.fan.reason) $(tasks.one.reason)"}]
    fan = task("fan", matrix={"params": [{"name": "v", "value": ["1", "2", "3"]}]}, onError="continue")
    it = world(fan, task("one"), **{"finally": [task("last", params=params)]})
    it.settle()
    first, second, third = (name for name in it.children if "fan" in name)
    told = it.children[first]["metadata"]["annotations"]
    assert told["pipeline.tekton.dev/pipeline-task-on-error"] == "continue"
    it.end("fan", "False", why="FailureIgnored", run=second)
    it.end("fan", run=first)
    it.end("fan", run=third)
    it.end("one")
    it.settle()
    (given,) = it.children["run-last"]["spec"]["params"]
    assert given["value"] == "FailureIgnored Succeeded"


def test_results_make_an_order_and_are_handed_on() -> None:
    user = task(
        "b",
        params=[
            {"name": "x", "value": "$(tasks.a.results.out)"},
            {"name": "l", "value": "$(tasks.a.results.all[*])"},
        ],
    )
    it = world(task("a"), user, results=[{"name": "r", "value": "got $(tasks.b.results.y)"}])
    it.settle()
    assert it.started() == ["a"]
    it.end("a", results={"out": "3", "all": ["1", "2"]})
    it.settle()
    assert it.children["run-b"]["spec"]["params"] == [
        {"name": "x", "value": "3"},
        {"name": "l", "value": ["1", "2"]},
    ]
    it.end("b", results={"y": "4"})
    it.settle()
    assert it.status["results"] == [{"name": "r", "value": "got 4"}]


def test_when_skips_a_task_and_those_that_need_its_results_but_not_those_after_it() -> None:
    no = [{"input": "$(params.go)", "operator": "in", "values": ["yes"]}]
    it = world(
        task("a", when=no),
        task("after", "a"),
        task("needs", params=[{"name": "x", "value": "$(tasks.a.results.out)"}]),
        spec={"params": [{"name": "go", "value": "no"}]},
        params=[{"name": "go"}],
    )
    it.settle()
    assert it.started() == ["after"]
    it.end("after")
    it.settle()
    assert reason(it.run) == ("True", "Completed")
    assert it.skipped() == {
        "a": "When Expressions evaluated to false",
        "needs": "Results were missing",
    }
    assert it.status["skippedTasks"][0]["whenExpressions"][0]["input"] == "no"


def test_a_matrix_is_a_run_for_each_combination_and_its_results_are_arrays() -> None:
    fan = task(
        "fan", matrix={"params": [{"name": "os", "value": ["l", "m"]}, {"name": "v", "value": ["1", "2"]}]}
    )
    it = world(fan, task("b", params=[{"name": "all", "value": "$(tasks.fan.results.r[*])"}]))
    it.settle()
    assert list(it.children) == ["run-fan-0", "run-fan-1", "run-fan-2", "run-fan-3"]
    assert [[p["value"] for p in c["spec"]["params"]] for c in it.children.values()] == [
        ["l", "1"],
        ["m", "1"],
        ["l", "2"],
        ["m", "2"],
    ], "the first parameter changes fastest"
    for index in range(4):
        it.end("fan", results={"r": str(index)}, run=f"run-fan-{index}")
    it.settle()
    assert it.children["run-b"]["spec"]["params"][0]["value"] == ["0", "1", "2", "3"]


def test_a_task_is_one_thing_only() -> None:
    it = world({"name": "child", "pipelineRef": {"name": "p"}, "taskRef": {"name": "t"}})
    it.step()
    assert reason(it.run) == ("False", "PipelineValidationFailed")
    assert "expected exactly one of" in it.status["conditions"][0]["message"]
    assert "got taskRef and pipelineRef" in it.status["conditions"][0]["message"]


def test_include_adds_to_what_fits_and_else_is_a_run_of_its_own() -> None:
    include = [
        {"name": "flags", "params": [{"name": "os", "value": "l"}, {"name": "f", "value": "-x"}]},
        {"name": "more", "params": [{"name": "os", "value": "w"}]},
    ]
    it = world(task("fan", matrix={"params": [{"name": "os", "value": ["l", "m"]}], "include": include}))
    it.settle()
    given = [{p["name"]: p["value"] for p in c["spec"]["params"]} for c in it.children.values()]
    assert given == [{"os": "l", "f": "-x"}, {"os": "m"}, {"os": "w"}]


def test_what_a_run_says_of_one_task_is_laid_over_what_it_says_of_all() -> None:
    every = {"serviceAccountName": "all", "podTemplate": {"nodeSelector": {"a": "1"}, "hostNetwork": True}}
    one = {
        "pipelineTaskName": "b",
        "serviceAccountName": "own",
        "podTemplate": {"nodeSelector": {"b": "1"}},
        "stepSpecs": [{"name": "main", "computeResources": {"limits": {"cpu": "1"}}}],
        "metadata": {"labels": {"mine": "yes"}},
    }
    it = world(task("a"), task("b"), spec={"taskRunTemplate": every, "taskRunSpecs": [one]})
    it.settle()
    a, b = (it.children[f"run-{name}"] for name in "ab")
    assert (a["spec"]["serviceAccountName"], a["spec"]["podTemplate"]) == ("all", every["podTemplate"])
    assert b["spec"]["serviceAccountName"] == "own"
    assert b["spec"]["podTemplate"] == {"nodeSelector": {"b": "1"}, "hostNetwork": True}
    assert b["spec"]["stepSpecs"] == one["stepSpecs"]
    assert b["metadata"]["labels"]["mine"] == "yes"
    assert "mine" not in a["metadata"]["labels"]


def test_child_references_say_what_a_task_is_called_and_when_it_was_wanted() -> None:
    when = [{"input": "$(params.x)", "operator": "in", "values": ["1"]}]
    it = world(
        task("a", displayName="Task of $(params.x)", when=when),
        params=[{"name": "x", "type": "string"}],
        spec={"params": [{"name": "x", "value": "1"}]},
    )
    it.settle()
    assert it.status["childReferences"] == [
        {
            "apiVersion": "tekton.dev/v1",
            "kind": "TaskRun",
            "name": "run-a",
            "pipelineTaskName": "a",
            "displayName": "Task of 1",
            "whenExpressions": [{**when[0], "input": "1"}],
        }
    ]


def test_parameters_reach_inline_tasks_unless_those_have_one_of_that_name() -> None:
    def script(**fields: Any) -> Any:
        return {"steps": [{"image": "x", "script": "echo $(params.p) $(context.pipelineRun.name)"}], **fields}

    it = world(
        task("outer", taskSpec=script()),
        task("inner", taskSpec=script(params=[{"name": "p", "default": "own"}])),
        params=[{"name": "p", "default": "pipeline"}],
    )
    it.settle()
    assert it.children["run-outer"]["spec"]["taskSpec"]["steps"][0]["script"] == "echo pipeline run"
    assert it.children["run-inner"]["spec"]["taskSpec"]["steps"][0]["script"] == "echo $(params.p) run"


def test_a_claim_template_becomes_one_claim_that_the_run_owns() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    it = world(
        task("a", workspaces=[{"name": "w", "workspace": "data", "subPath": "sub"}]),
        task("b", workspaces=[{"name": "data"}]),
        spec={"workspaces": [{"name": "data", "volumeClaimTemplate": template}]},
        workspaces=[{"name": "data"}],
    )
    it.settle()
    (claim,) = it.claims
    assert claim["metadata"]["ownerReferences"][0]["name"] == "run"
    name = claim["metadata"]["name"]
    assert it.children["run-a"]["spec"]["workspaces"] == [
        {"name": "w", "persistentVolumeClaim": {"claimName": name}, "subPath": "sub"}
    ]
    assert it.children["run-b"]["spec"]["workspaces"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    ]


def test_a_custom_task_becomes_a_custom_run() -> None:
    custom = {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "DistributedStep",
        "spec": {"job": {"kind": "TFJob"}},
    }
    it = world(
        task("train", taskSpec=custom, params=[{"name": "lr", "value": "$(params.lr)"}], retries=1),
        params=[{"name": "lr", "default": "0.1"}],
    )
    it.settle()
    run = it.children["run-train"]
    assert (run["apiVersion"], run["kind"]) == ("tekton.dev/v1beta1", "CustomRun")
    assert run["spec"]["customSpec"]["spec"] == {"job": {"kind": "TFJob"}}
    assert run["spec"]["params"] == [{"name": "lr", "value": "0.1"}]
    assert run["spec"]["retries"] == 1
    it.run["spec"]["status"] = "Cancelled"
    it.settle()
    assert run["spec"]["status"] == "RunCancelled"


def test_finally_knows_how_the_others_ended() -> None:
    last = task(
        "last", params=[{"name": "s", "value": "$(tasks.a.status) $(tasks.b.status) $(tasks.status)"}]
    )
    it = world(task("a"), task("b", "a"), **{"finally": [last]})
    it.settle()
    it.end("a", "False")
    it.settle()
    assert it.children["run-last"]["spec"]["params"][0]["value"] == "Failed None Failed"


@pytest.mark.parametrize(
    ("spec", "word", "text"),
    [
        ({"pipelineRef": {"name": "p"}}, "CouldntGetPipeline", 'pipelines.tekton.dev "p" not found'),
        ({"pipelineRef": {"resolver": "git"}}, "CouldntGetPipeline", "resolver git"),
        ({"pipelineSpec": {"tasks": [task("a", "b")]}}, "PipelineInvalidGraph", 'depends on "b"'),
        ({"pipelineSpec": {"tasks": [task("a", "b"), task("b", "a")]}}, "PipelineInvalidGraph", "cycle"),
        ({"pipelineSpec": {"tasks": [task("a"), task("a")]}}, "PipelineInvalidGraph", "more than once"),
        ({"pipelineSpec": {"tasks": [{"name": "a"}]}}, "PipelineValidationFailed", "neither"),
        ({"pipelineSpec": {"tasks": []}}, "PipelineValidationFailed", "no tasks"),
        (
            {"pipelineSpec": {"tasks": [{"name": "a", "taskRef": {"name": "t"}}]}},
            "CouldntGetTask",
            '"t" not found',
        ),
        ({"pipelineSpec": {"tasks": [task("a")], "params": [{"name": "p"}]}}, "ParameterMissing", "[p]"),
        (
            {
                "pipelineSpec": {"tasks": [task("a")], "params": [{"name": "p", "type": "array"}]},
                "params": [{"name": "p", "value": "x"}],
            },
            "ParameterTypeMismatch",
            'expected type "array"',
        ),
        (
            {"pipelineSpec": {"tasks": [task("a")], "workspaces": [{"name": "w"}]}},
            "InvalidWorkspaceBindings",
            'workspace with name "w"',
        ),
        (
            {"pipelineSpec": {"tasks": [task("a", when=[{"input": "x", "operator": "is", "values": []}])]}},
            "PipelineValidationFailed",
            'invalid operator "is"',
        ),
    ],
)
def test_what_cannot_run_says_why(spec: Any, word: str, text: str) -> None:
    it = PipelineWorld(pipeline_run(spec))
    it.settle()
    assert reason(it.run) == ("False", word)
    assert text in it.status["conditions"][0]["message"]
    assert not it.children


def test_a_referred_pipeline_and_task_are_used_and_labelled() -> None:
    pipeline = stored(
        {
            "kind": "Pipeline",
            "metadata": {"name": "p"},
            "spec": {"tasks": [{"name": "a", "taskRef": {"name": "t"}}]},
        }
    )
    referred = stored({"kind": "Task", "metadata": {"name": "t"}, "spec": {"steps": []}})
    it = PipelineWorld(pipeline_run({"pipelineRef": {"name": "p"}}), pipeline=pipeline, tasks={"t": referred})
    it.settle()
    child = it.children["run-a"]
    assert child["metadata"]["labels"]["tekton.dev/pipeline"] == "p"
    assert child["spec"]["taskRef"] == {"kind": "Task", "name": "t"}


def test_a_run_that_is_over_or_going_is_left_alone() -> None:
    it = world(task("a"))
    it.settle()
    it.end("a")
    it.settle()
    assert it.step().status is None
    gone = pipeline_run({"pipelineSpec": {"tasks": [task("a")]}}, deletionTimestamp="2026-01-01T00:00:00Z")
    other = PipelineWorld(gone)
    assert not other.step().actions


_DAG = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*(st.sets(st.integers(0, max(i - 1, 0)), max_size=i) for i in range(n)))
)


@times(0.6)
@given(dag=_DAG, order=st.randoms(use_true_random=False), failing=st.sets(st.integers(0, 5), max_size=2))
def test_every_order_of_ends_comes_to_an_end_and_no_task_starts_before_its_parents(
    dag: Any, order: Any, failing: set[int]
) -> None:
    """Whatever ends when, each task starts once, after all that it waits for, and the run ends."""
    tasks = [task(f"t{i}", *(f"t{p}" for p in parents if p != i)) for i, parents in enumerate(dag)]
    parents_of = {t["name"]: set(t.get("runAfter", ())) for t in tasks}
    it = world(*tasks)
    it.settle()
    done: set[str] = set()
    while reason(it.run)[0] == "Unknown":
        open_ = [t for t in it.started() if t not in done]
        assert open_, "nothing runs, and the run is not over"
        for name in open_:
            assert parents_of[name] <= done
        chosen = order.choice(open_)
        it.end(chosen, "False" if int(chosen[1:]) in failing else "True")
        done.add(chosen)
        it.settle()
    failed = {name for name in done if int(name[1:]) in failing}
    assert reason(it.run)[0] == ("False" if failed else "True")
    if not failed:
        assert done == set(parents_of)


def test_no_more_tasks_run_at_once_than_the_run_says() -> None:
    run = pipeline_run(
        {"pipelineSpec": {"tasks": [task(f"t{i}") for i in range(5)]}},
        annotations={"trainshed.dev/tasks-at-once": "2"},
    )
    it = PipelineWorld(run)
    it.settle()
    assert it.started() == ["t0", "t1"]
    it.end("t0")
    it.settle()
    assert it.started() == ["t0", "t1", "t2"]
