"""Running a pipeline from Python: what is returned at its end, and what is raised. The run itself is a stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainshed.pipelines.ir import Block, Pipeline, Step
from trainshed.pipelines.notebook.settings import Settings
from trainshed.sdk.pipelineruns import run as module
from trainshed.sdk.pipelineruns.ended import PipelineOutcome
from trainshed.sdk.pipelineruns.run import PipelineFailed, run_pipeline

PIPELINE = Pipeline(Settings(name="sums"), (), (Step("total", (Block("t = 1"),)),))
REMOTE = {"kubeconfig": "/a/file", "namespace": "team"}


class Run:
    """What stands for the server and the run; notes what it is asked."""

    def __init__(self, outcome: PipelineOutcome) -> None:
        self.outcome = outcome
        self.started: list[Any] = []
        self.followed: list[Any] = []

    @asynccontextmanager
    async def connected(self, where: Any) -> AsyncIterator[str]:
        yield f"client of {where.namespace}"

    async def start(self, client: str, objects: Any) -> str:
        self.started.append((client, objects))
        return "the run"

    def follower(self, *arguments: Any) -> Any:
        self.followed.append(arguments[:3])

        class Following:
            async def run(_) -> PipelineOutcome:
                return self.outcome

        return Following()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)


def _stand_in(monkeypatch: pytest.MonkeyPatch, outcome: PipelineOutcome) -> Run:
    run = Run(outcome)
    for name, value in {
        "connected": run.connected,
        "start": run.start,
        "Follower": run.follower,
        "emitted": lambda made, where, options, file: (made.name, options.run_name, dict(options.parameters)),
        "portal": lambda: run,
    }.items():
        monkeypatch.setattr(module, name, value)
    return run


def make_outcome(*, succeeded: bool) -> PipelineOutcome:
    reason = "Succeeded" if succeeded else "Failed"
    return PipelineOutcome("sums", "team", succeeded, reason, "told")


@pytest.mark.parametrize(("given", "name"), [(None, "sums"), ("tonight", "tonight")])
def test_its_outcome_is_returned(monkeypatch: pytest.MonkeyPatch, given: str | None, name: str) -> None:
    outcome = make_outcome(succeeded=True)
    run = _stand_in(monkeypatch, outcome)
    assert run_pipeline(PIPELINE, run_name=given, **REMOTE) is outcome
    assert run.started == [("client of team", ("sums", name, {}))]
    assert run.followed == [("client of team", PIPELINE, "the run")]


def test_a_failure_is_raised_with_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = make_outcome(succeeded=False)
    _stand_in(monkeypatch, outcome)
    with pytest.raises(PipelineFailed) as raised:
        run_pipeline(PIPELINE, **REMOTE)
    assert raised.value.outcome is outcome
