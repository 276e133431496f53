"""What a step runner is told: the program of the step, and the circumstances of this run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Primitive = int | float | str | bool


class Block(msgspec.Struct, frozen=True):
    """A piece of code, run as one cell. `cell` is its number in the notebook.

    With a `file` it runs as lines of that file, from `line` on.
    """

    source: str
    role: Literal["imports", "functions", "step"] = "step"
    cell: int | None = None
    file: str | None = None
    line: int = 1


class Input(msgspec.Struct, frozen=True):
    """A name to load, from which step, and what it is called there."""

    name: str
    step: str
    output: str


class Output(msgspec.Struct, frozen=True):
    """A name to save. `cell` is where the notebook sets it.

    With `fallback` every step makes the object for itself, and one that cannot be saved is not handed on.
    """

    name: str
    cell: int | None = None
    fallback: bool = False


class Parameter(msgspec.Struct, frozen=True):
    """A parameter with its type and what it is unless told otherwise."""

    name: str
    type: Literal["int", "float", "str", "bool"]
    default: Primitive


class Metric(msgspec.Struct, frozen=True):
    """A number to report, and the variable that holds it."""

    key: str
    variable: str


class Program(msgspec.Struct, frozen=True):
    """The program of a step."""

    step: str
    blocks: tuple[Block, ...]
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    metrics: tuple[Metric, ...] = ()
    report: bool = True

    def statement(self, block: Block, inside: str) -> str:
        """Return what a kernel is given to run a block. `inside` is an expression for the module of that name."""
        return block.source if block.file is None else f"{inside}.define({self.blocks.index(block)})"


class MetricsArtifact(msgspec.Struct, frozen=True):
    """The artifact of Kubeflow Pipelines that shows a step's metrics.

    `path` is the artifact's file.
    """

    name: str
    uri: str
    path: str


class Circumstances(msgspec.Struct, frozen=True):
    """Where this run's data lies and what its parameters are.

    `folders` name the directory of single inputs and outputs; all others lie under `data`. `saves` is false for workers
    other than the first.
    """

    data: str
    run: str
    attempt: str = "0"
    parameters: dict[str, str] = {}
    input_folders: dict[str, str] = {}
    output_folders: dict[str, str] = {}
    results: dict[str, str] = {}
    results_folder: str | None = None
    message: str | None = None
    """File for all metrics together, in the form of a container's last words."""
    metrics_artifact: MetricsArtifact | None = None
    artifacts: dict[str, str] = {}
    """Addresses of the artifacts of Kubeflow Pipelines that the step makes, by name."""
    executor_output: str | None = None
    """File in which a container describes its artifacts, in the form of KFP's ExecutorOutput."""
    saves: bool = True
    trusted: bool = False
    work: str | None = None
    """Directory in which the step's code runs, made if absent."""


class Job(msgspec.Struct, frozen=True):
    """All that the part inside the kernel needs."""

    program: Program
    circumstances: Circumstances


_TYPES: dict[str, Callable[[str], Primitive]] = {"int": int, "float": float, "str": str}
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def parameter_value(parameter: Parameter, text: str | None) -> Primitive:
    """Return a parameter's value from its text; ValueError says what it must be."""
    if text is None:
        return parameter.default
    try:
        if parameter.type == "bool":
            if text.lower() not in (*_TRUE, *_FALSE):
                raise ValueError
            return text.lower() in _TRUE
        return _TYPES[parameter.type](text)
    except ValueError:
        raise ValueError(f"parameter {parameter.name}: must be {parameter.type}, not {text!r}") from None
