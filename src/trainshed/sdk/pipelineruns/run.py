"""Run a pipeline from Python and wait for its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.python.decorators import PipelineFunction
from trainshed.sdk import local as machine
from trainshed.sdk import notebook as notebooks
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import UserError
from trainshed.sdk.pipelineruns.ended import PipelineOutcome, summary
from trainshed.sdk.pipelineruns.follow import Follower, Quiet
from trainshed.sdk.pipelineruns.start import emitted, start
from trainshed.sdk.pipelinescript import file_of
from trainshed.sdk.portal import portal


def _pipeline(given: str | Path | Pipeline | PipelineFunction[Any, Any]) -> Pipeline:
    if isinstance(given, str | Path):
        return notebooks.pipeline_of(Path(given))[0]
    return given if isinstance(given, Pipeline) else given.pipeline()


def _file(given: str | Path | Pipeline | PipelineFunction[Any, Any]) -> Path | None:
    """Return the file in whose directory the steps run here."""
    if isinstance(given, str | Path):
        return Path(given)
    return file_of(given) if isinstance(given, PipelineFunction) else None


class PipelineFailed(UserError):
    """A run that was waited for has failed. `outcome` says which steps, where and why."""

    def __init__(self, outcome: PipelineOutcome) -> None:
        super().__init__("\n".join(summary(outcome)))
        self.outcome = outcome


def run_pipeline(
    pipeline: str | Path | Pipeline | PipelineFunction[Any, Any],
    *,
    run_name: str | None = None,
    on_line: Callable[[str, str], None] | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    namespace: str | None = None,
    **parameters: object,
) -> PipelineOutcome:
    """Run a notebook, or functions with `@pipeline`, on the local cluster or on another one; return how it ended.

    `on_line` is given the step and the text of each log line, in another thread. The local cluster is started if it is
    not up. A finished run of the same name is replaced. All other arguments are parameters of the pipeline.

    Raises:
        PipelineFailed: with the step, the cell and the traceback.
        NotebookError: the notebook or the functions form no pipeline.
        UserError: an unknown parameter, or a run of that name is under way.

    Example:
        from trainshed import run_pipeline

        outcome = run_pipeline("candies.ipynb", CANDIES=30, on_line=print)
        print([step.state for step in outcome.steps])
    """
    made = _pipeline(pipeline)
    given = notebooks.parameters(made, [f"{name}={value}" for name, value in parameters.items()])
    where = Target(kubeconfig, context, namespace)
    if where.is_local:
        machine.start(where.paths)
    file = _file(pipeline)
    objects_ = emitted(made, where, Options(run_name=run_name or made.name, parameters=given), file)

    async def follow() -> PipelineOutcome:
        async with connected(where) as client:
            return await Follower(client, made, await start(client, objects_), Quiet(on_line)).run()

    ended = portal().call(follow())
    if not ended.succeeded:
        raise PipelineFailed(ended)
    return ended
