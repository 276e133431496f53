"""A distributed step as so many steps that run at once, as the fork of Kale made it."""

from __future__ import annotations

import msgspec

from trainshed.pipelines.ir import Pipeline, Step


class Worker(msgspec.Struct, frozen=True):
    """Which of a distributed step's workers a step is, and how many there are. `index` counts from 0."""

    of: str
    index: int
    workers: int


def worker_of(step: str, index: int) -> str:
    """Return the name of a worker's step: `training1` is the worker with index 0."""
    return f"{step}{index + 1}"


def workers(pipeline: Pipeline) -> dict[str, Worker]:
    """Return which steps of an expanded pipeline are workers."""
    return {
        worker_of(step.name, index): Worker(step.name, index, step.distribution.workers)
        for step in pipeline.steps
        if step.distribution is not None
        for index in range(step.distribution.workers)
    }


def workers_as_steps(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with each distributed step as N steps `NAME1` to `NAMEN`, of which the first saves."""
    names: dict[str, list[str]] = {
        step.name: [worker_of(step.name, i) for i in range(step.distribution.workers)]
        for step in pipeline.steps
        if step.distribution is not None
    }
    steps: list[Step] = []
    for step in pipeline.steps:
        previous = tuple(p for name in step.previous for p in names.get(name, [name]))
        inputs = tuple(
            msgspec.structs.replace(i, step=names[i.step][0]) if i.step in names else i for i in step.inputs
        )
        moved = msgspec.structs.replace(step, previous=previous, inputs=inputs)
        for index, name in enumerate(names.get(step.name, [])):
            first = index == 0
            steps.append(
                msgspec.structs.replace(
                    moved,
                    name=name,
                    outputs=step.outputs if first else (),
                    metrics=step.metrics if first else (),
                )
            )
        if step.name not in names:
            steps.append(moved)
    return msgspec.structs.replace(pipeline, steps=tuple(steps))
