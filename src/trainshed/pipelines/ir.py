"""A checked pipeline: the one type that emitters read.

Everything that a step needs is written down in it: its code, what it loads and from which step, what it saves, its
parameters. Steps stand in an order in which they can run.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, NotebookError
from trainshed.pipelines.notebook.literals import Metric, Parameter
from trainshed.pipelines.notebook.settings import Settings
from trainshed.pipelines.notebook.stepsettings import Distribution, StepSettings


class Block(msgspec.Struct, frozen=True):
    """A piece of a step's program, which runs as one cell. `cell` is where it stands in the notebook.

    What comes from a file has the file's name, and the line that it begins in.
    """

    source: str
    role: Literal["imports", "functions", "step"] = "step"
    cell: int | None = None
    file: str | None = None
    line: int = 1


class Input(msgspec.Struct, frozen=True):
    """A name that a step loads: from which step, and what it is called there."""

    name: str
    step: str
    output: str


class Step(msgspec.Struct, frozen=True):
    """One node of the pipeline."""

    name: str
    blocks: tuple[Block, ...]
    previous: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[str, ...] = ()
    places: dict[str, int] = {}
    """The cell that sets an output, where one does."""
    fallbacks: tuple[str, ...] = ()
    """Outputs that every step makes for itself: one that cannot be saved is left as it is made there."""
    parameters: tuple[str, ...] = ()
    metrics: tuple[Metric, ...] = ()
    settings: StepSettings = StepSettings()
    distribution: Distribution | None = None


class Pipeline(msgspec.Struct, frozen=True):
    """A pipeline that can run."""

    settings: Settings
    parameters: tuple[Parameter, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.settings.name

    def step(self, name: str) -> Step:
        """Return the step with this name; KeyError when there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)


class Compiled(msgspec.Struct, frozen=True):
    """What became of a notebook or of functions: a pipeline, unless a finding is an error."""

    pipeline: Pipeline | None
    diagnostics: tuple[Diagnostic, ...]

    def checked(self) -> Pipeline:
        """Return the pipeline; raises NotebookError when there is none."""
        if self.pipeline is None:
            raise NotebookError(self.diagnostics)
        return self.pipeline


def program(step: Step, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    """Return what the step runner is told to do, as JSON: the other half is `runner/program.py`."""
    types = {p.name: p for p in parameters}
    return {
        "step": step.name,
        "blocks": [
            {"source": b.source, "role": b.role, "cell": b.cell}
            | ({"file": b.file, "line": b.line} if b.file is not None else {})
            for b in step.blocks
        ],
        "inputs": [{"name": i.name, "step": i.step, "output": i.output} for i in step.inputs],
        "outputs": [
            {"name": name, "cell": step.places.get(name), "fallback": name in step.fallbacks}
            for name in step.outputs
        ],
        "parameters": [
            {"name": name, "type": types[name].type, "default": types[name].default}
            for name in step.parameters
        ],
        "metrics": [{"key": m.key, "variable": m.variable} for m in step.metrics],
        "report": step.settings.report,
    }
