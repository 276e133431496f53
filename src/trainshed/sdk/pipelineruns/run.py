"""Run a pipeline from Python and wait for its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.python.decorators import PipelineFunction
from trainshed.sdk import local as machine
from trainshed.sdk import notebook as notebooks
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import UserError
from trainshed.sdk.pipelineruns.ended import Ended, summary
from trainshed.sdk.pipelineruns.follow import Follower, Quiet
from trainshed.sdk.pipelineruns.start import emitted, start
from trainshed.sdk.portal import portal


class PipelineFailed(UserError):
    """A run that was waited for has failed. `ended` says which steps, where and why."""

    def __init__(self, ended: Ended) -> None:
        super().__init__("\n".join(summary(ended)))
        self.ended = ended


def run_pipeline(
    pipeline: Pipeline | PipelineFunction[Any, Any],
    *,
    target: Target | None = None,
    run_name: str | None = None,
    on_line: Callable[[str, str], None] | None = None,
    **parameters: object,
) -> Ended:
    """Run a pipeline of functions or of a notebook on the local cluster, or on `target`; return how it ended.

    `on_line` is given each log line with its step, in another thread. The local cluster is started if it is not up. A
    finished run of the same name is replaced.

    Raises:
        PipelineFailed: with the step, the cell and the traceback.
        NotebookError: the functions form no pipeline.
        UserError: an unknown parameter, or a run of that name is under way.
    """
    made = pipeline if isinstance(pipeline, Pipeline) else pipeline.pipeline()
    given = notebooks.parameters(made, [f"{name}={value}" for name, value in parameters.items()])
    where = target or Target()
    if where.is_local:
        machine.start(where.paths)
    objects_ = emitted(made, where, Options(run_name=run_name or made.name, parameters=given))

    async def follow() -> Ended:
        async with connected(where) as client:
            return await Follower(client, made, await start(client, objects_), Quiet(on_line)).run()

    ended = portal().call(follow())
    if not ended.succeeded:
        raise PipelineFailed(ended)
    return ended
