"""How a PipelineRun is ended: cancelled, stopped, out of time."""

from __future__ import annotations

from tests.unit.tekton_world import START, reason, task
from tests.unit.test_tekton_pipelineruns import world


def test_cancelling_asks_the_children_first_and_ends_the_run_only_then() -> None:
    it = world(task("a"), task("b", "a"), **{"finally": [task("last")]})
    it.settle()
    it.run["spec"]["status"] = "Cancelled"
    plan = it.step()
    assert plan.status is None
    assert it.children["run-a"]["spec"]["status"] == "TaskRunCancelled"
    it.settle()
    assert reason(it.run) == ("False", "Cancelled")
    assert it.started() == ["a"]


def test_a_graceful_cancel_still_runs_finally() -> None:
    it = world(task("a"), task("b", "a"), **{"finally": [task("last")]})
    it.settle()
    it.run["spec"]["status"] = "CancelledRunFinally"
    it.settle()
    assert reason(it.run) == ("Unknown", "CancelledRunningFinally")
    it.end("a", "False", why="TaskRunCancelled")
    it.settle()
    assert it.started() == ["a", "last"]
    it.end("last")
    it.settle()
    assert reason(it.run) == ("False", "Cancelled")


def test_a_graceful_stop_lets_what_runs_end() -> None:
    it = world(task("a"), task("b", "a"), **{"finally": [task("last")]})
    it.settle()
    it.run["spec"]["status"] = "StoppedRunFinally"
    it.settle()
    assert "status" not in it.children["run-a"]["spec"]
    it.end("a")
    it.settle()
    assert it.started() == ["a", "last"]
    assert it.skipped()["b"] == "PipelineRun was gracefully stopped"


def test_out_of_time_ends_everything() -> None:
    it = world(task("a"), spec={"timeouts": {"pipeline": "1h"}})
    plan = it.step()
    assert plan.requeue_after == 3600
    it.now = START + 3600
    it.settle()
    assert "timed out" in it.children["run-a"]["spec"]["statusMessage"]
    assert reason(it.run) == ("False", "PipelineRunTimeout")
    assert it.status["conditions"][0]["message"] == 'PipelineRun "run" failed to finish within "1h0m0s"'


def test_the_time_of_the_tasks_leaves_time_for_finally() -> None:
    it = world(
        task("a"), spec={"timeouts": {"pipeline": "1h", "tasks": "10m"}}, **{"finally": [task("last")]}
    )
    it.settle()
    it.now = START + 600
    it.settle()
    assert reason(it.run) == ("Unknown", "PipelineRunTimeoutRunningFinally")
    it.end("a", "False", why="TaskRunCancelled")
    it.settle()
    assert it.started() == ["a", "last"]
    it.end("last")
    it.settle()
    assert reason(it.run) == ("False", "PipelineRunTimeout")


def test_finally_has_a_limit_of_its_own() -> None:
    limits = {"pipeline": "1h", "finally": "10m"}
    it = world(task("a"), spec={"timeouts": limits}, **{"finally": [task("last"), task("other")]})
    it.settle()
    it.end("a")
    it.settle()
    it.now = START + 60
    it.end("other")
    it.settle()
    it.now = START + 600
    it.settle()
    assert it.children["run-last"]["spec"]["status"] == "TaskRunCancelled"
    it.end("last", "False", why="TaskRunCancelled")
    it.settle()
    assert reason(it.run)[0] == "False"


def test_without_a_limit_no_child_has_one() -> None:
    it = world(task("a"), spec={"timeouts": {"pipeline": "0"}})
    assert it.step().requeue_after is None
    assert it.children["run-a"]["spec"]["timeout"] == "0s"


def test_a_pending_run_waits() -> None:
    it = world(task("a"), spec={"status": "PipelineRunPending"})
    it.settle()
    assert reason(it.run) == ("Unknown", "PipelineRunPending")
    assert not it.children
    assert "startTime" not in it.status
    del it.run["spec"]["status"]
    it.settle()
    assert it.started() == ["a"]
