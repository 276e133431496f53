"""The variables of the environment in which a step's code runs."""

from __future__ import annotations

from trainshed.pipelines.ir import Pipeline, Step
from trainshed.pipelines.notebook.strategies import STRATEGIES


def environment(pipeline: Pipeline, step: Step) -> dict[str, str]:
    """Return what the step's tags and the strategies of the pipeline say; the step's own value wins."""
    made: dict[str, str] = {}
    for one in pipeline.steps:
        if one.distribution is not None:
            made |= STRATEGIES[one.distribution.strategy].environment
    return made | step.settings.env
