"""The program of a step as text that no templating engine touches, and the arguments of its runner."""

from __future__ import annotations

import json
from collections.abc import Callable

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.ir import Pipeline, Step, program
from trainshed.pipelines.notebook.literals import Parameter

RUNNER = "trainshed.pipelines.runner"
_LARGEST = 240 * 1024
"""Bytes of a program: annotations may have 256 KiB together."""
_READERS: dict[str, Callable[[str], object]] = {"int": int, "float": float, "str": str}
_TRUTHS = frozenset({"true", "1", "yes", "on", "false", "0", "no", "off"})


def program_text(pipeline: Pipeline, step: Step) -> str:
    """Return the step's program as JSON in which `$` is written as an escape, so that no `$(…)` is there to replace."""
    return json.dumps(program(step, pipeline.parameters), indent=1).replace("$", "\\u0024")


def too_large(pipeline: Pipeline, largest: int = _LARGEST) -> list[Diagnostic]:
    """Find steps whose program does not fit into what carries it; by default an annotation."""
    return [
        diagnostic(
            "NB304",
            f"the program of step {step.name} has {size // 1024} KiB; {largest // 1024} fit into an object",
            cell=max(step.blocks, key=lambda block: len(block.source)).cell,
            step=step.name,
            fix="move code into a module of the image",
        )
        for step in pipeline.steps
        if (size := len(program_text(pipeline, step).encode())) > largest
    ]


def is_exposed(parameter: Parameter) -> bool:
    """Return whether a run may set the parameter: not when its default looks like a variable of Tekton."""
    return not (isinstance(parameter.default, str) and "$(" in parameter.default)


def parameter_text(parameter: Parameter) -> str:
    """Return a parameter's default as text that the runner reads back."""
    value = parameter.default
    return (
        str(value).lower()
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, float)
        else str(value)
    )


def takes(parameter: Parameter, text: str) -> bool:
    """Return whether the runner reads the text as a value of the parameter's type."""
    if parameter.type == "bool":
        return text.lower() in _TRUTHS
    try:
        _READERS[parameter.type](text)
    except ValueError:
        return False
    return True
