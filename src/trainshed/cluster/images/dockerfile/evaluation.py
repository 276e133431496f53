"""The steps of a stage, its variables replaced, and the configuration that comes of them. Pure."""

from __future__ import annotations

import msgspec

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.configuration import configure
from trainshed.cluster.images.dockerfile.filesteps import copy_step, run_step, workdir_step
from trainshed.cluster.images.dockerfile.planning import Plan, PlannedStage
from trainshed.cluster.images.dockerfile.scope import Scope
from trainshed.cluster.images.dockerfile.steps import Options, Step
from trainshed.cluster.images.oci import RunConfig


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage does, and the configuration of its result."""

    steps: tuple[Step, ...]
    config: RunConfig
    author: str = ""


def evaluate(whole: Plan, stage: PlannedStage, base: RunConfig, options: Options) -> Evaluated:
    """Return what a stage does on a base of that configuration. Raises DockerfileError."""
    scope = Scope(whole, base, options)
    steps = tuple(_step(scope, instruction) for instruction in stage.instructions)
    env = tuple(f"{name}={value}" for name, value in scope.env.items())
    labels = dict(scope.config.labels or {})
    if stage is whole.stages[-1]:
        labels |= options.labels
    config = msgspec.structs.replace(scope.config, env=env or None, labels=labels or None)
    return Evaluated(steps=steps, config=config, author=scope.author)


def _step(scope: Scope, instruction: i.Instruction) -> Step:
    match instruction:
        case i.Run():
            return run_step(scope, instruction)
        case i.Copy():
            return copy_step(scope, instruction)
        case i.Workdir():
            return workdir_step(scope, instruction)
    return configure(scope, instruction)
