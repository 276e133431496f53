"""A pipeline that asks for no devices: for a machine that has none of those that its notebook wants."""

from __future__ import annotations

import msgspec

from trainshed.pipelines.ir import Pipeline

_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})


def without_devices(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with steps that ask for cpu, memory and storage only."""
    steps = []
    for step in pipeline.steps:
        settings = msgspec.structs.replace(
            step.settings, limits=_plain(step.settings.limits), requests=_plain(step.settings.requests)
        )
        steps.append(msgspec.structs.replace(step, settings=settings))
    return msgspec.structs.replace(pipeline, steps=tuple(steps))


def _plain(amounts: dict[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name in _PLAIN}
