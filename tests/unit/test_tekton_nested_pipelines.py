"""Pipelines in pipelines: a task that is a PipelineRun of its own."""

from __future__ import annotations

from tests.unit.tekton_world import PipelineWorld, pipeline_run, reason, task
from tests.unit.test_tekton_pipelineruns import world

INNER = {
    "params": [{"name": "greeting"}],
    "tasks": [task("say"), task("again", params=[{"name": "p", "value": "$(tasks.say.results.said)"}])],
}


def test_a_pipeline_in_a_pipeline_is_a_run_of_its_own() -> None:
    it = world(
        task("a"),
        {
            "name": "child",
            "runAfter": ["a"],
            "timeout": "5m",
            "pipelineSpec": INNER,
            "params": [{"name": "greeting", "value": "$(params.word) $(tasks.a.results.name)"}],
            "workspaces": [{"name": "source", "workspace": "all"}],
        },
        task("b", params=[{"name": "p", "value": "$(tasks.child.results.said)"}]),
        spec={
            "params": [{"name": "word", "value": "hello"}],
            "workspaces": [{"name": "all", "emptyDir": {}}],
            "taskRunTemplate": {"serviceAccountName": "builder", "podTemplate": {"hostNetwork": True}},
        },
        params=[{"name": "word"}],
        workspaces=[{"name": "all"}],
    )
    it.settle()
    it.end("a", results={"name": "you"})
    it.settle()
    child = it.children["run-child"]
    assert (child["apiVersion"], child["kind"]) == ("tekton.dev/v1", "PipelineRun")
    assert child["spec"] == {
        "pipelineSpec": INNER,
        "params": [{"name": "greeting", "value": "hello you"}],
        "workspaces": [{"name": "source", "emptyDir": {}}],
        "taskRunTemplate": {"serviceAccountName": "builder", "podTemplate": {"hostNetwork": True}},
        "timeouts": {"pipeline": "5m"},
    }
    assert child["metadata"]["labels"]["tekton.dev/pipelineTask"] == "child"
    assert it.status["childReferences"][-1]["kind"] == "PipelineRun"
    it.end("child", results={"said": "so"})
    it.settle()
    assert it.children["run-b"]["spec"]["params"][0]["value"] == "so"


def test_a_pipeline_in_a_pipeline_is_cancelled_with_it() -> None:
    it = world({"name": "child", "pipelineRef": {"name": "p"}})
    it.settle()
    assert it.children["run-child"]["spec"]["pipelineRef"] == {"name": "p"}
    it.run["spec"]["status"] = "Cancelled"
    it.step()
    assert it.children["run-child"]["spec"]["status"] == "Cancelled"
    assert "statusMessage" not in it.children["run-child"]["spec"]
    it.end("child", "False", why="Cancelled")
    it.settle()
    assert reason(it.run) == ("False", "Cancelled")


def test_a_pipeline_may_not_be_within_itself() -> None:
    above = {"trainshed.dev/pipelines-above": "p q"}
    it = PipelineWorld(
        pipeline_run(
            {"pipelineSpec": {"tasks": [{"name": "child", "pipelineRef": {"name": "p"}}]}}, annotations=above
        )
    )
    it.step()
    assert reason(it.run) == ("False", "PipelineValidationFailed")
    assert "the pipeline is within itself: p -> q -> run -> p" in it.status["conditions"][0]["message"]
