"""Notebooks and pipeline scripts on disk: read, check, compile."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from trainshed.findings import Severity
from trainshed.pipelines.compilation import compile_notebook, references
from trainshed.pipelines.diagnostics import Diagnostic, NotebookError, has_errors
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.program import is_exposed, takes, too_large
from trainshed.pipelines.ir import Compiled, Pipeline, Step
from trainshed.pipelines.notebook.cells import Notebook, read
from trainshed.pipelines.notebook.nearest import nearest
from trainshed.sdk import pipelinescript as scripts
from trainshed.sdk.errors import UserError

Target = Literal["tekton", "tekton-v1beta1", "kfp", "local"]


def load(path: Path) -> Compiled:
    """Return what becomes of a notebook, or of a Python file with a `@pipeline`: FILE.py, or FILE.py:FUNCTION.

    Raises UserError when it cannot be read, or the Python file cannot be imported.
    """
    if scripts.is_script(path):
        return scripts.compiled(path)
    try:
        notebook = _read(path)
    except NotebookError as error:
        return Compiled(None, error.diagnostics)
    others: dict[str, Notebook] = {}
    for name in references(notebook):
        try:
            others[name] = _read(path.parent / name)
        except (UserError, NotebookError):
            continue  # the compiler names the cell that asks for it
    return compile_notebook(notebook, others)


def _read(path: Path) -> Notebook:
    try:
        content = path.read_bytes()
    except IsADirectoryError as error:
        raise UserError(f"{path} is a directory", "name a notebook file") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return read(content, path.stem)


def checked(path: Path) -> Compiled:
    """Return what becomes of a notebook, as `load`, with what would keep it from running.

    Raises UserError when it cannot be read.
    """
    made = load(path)
    if made.pipeline is None:
        return made
    return Compiled(made.pipeline, (*made.diagnostics, *too_large(made.pipeline)))


def pipeline_of(path: Path) -> tuple[Pipeline, tuple[Diagnostic, ...]]:
    """Return a notebook's pipeline with its warnings. Raises NotebookError when it has errors."""
    compiled = load(path)
    return compiled.checked(), compiled.diagnostics


def step_of(pipeline: Pipeline, name: str) -> Step:
    """Return a step by name; UserError suggests the nearest."""
    try:
        return pipeline.step(name)
    except KeyError:
        names = [step.name for step in pipeline.steps]
        close = nearest(name, names)
        hint = f"did you mean {close}?" if close else f"steps are {', '.join(names)}"
        raise UserError(f"there is no step {name}", hint) from None


def parameters(pipeline: Pipeline, given: list[str]) -> dict[str, str]:
    """Return the parameters given as NAME=VALUE. Raises UserError for unknown ones, wrong types and other forms."""
    known = {p.name: p for p in pipeline.parameters if is_exposed(p)}
    result = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise UserError(f"--param {text}: write NAME=VALUE")
        if name not in known:
            close = nearest(name, known)
            raise UserError(
                f"there is no parameter {name}",
                f"did you mean {close}?" if close else f"parameters are {', '.join(known) or 'none'}",
            )
        if not takes(known[name], value):
            raise UserError(f"parameter {name}: must be {known[name].type}, not {value!r}")
        result[name] = value
    return result


def emitted(pipeline: Pipeline, target: Target, options: Options) -> tuple[str, list[Diagnostic]]:
    """Return the pipeline's YAML for a target, and what the target cannot do.

    Raises NotebookError when the target cannot take it, UserError when a package is missing.
    """
    if target == "kfp":
        from trainshed.pipelines.emit import kfp

        found = kfp.limits(pipeline)
        _refuse(found)
        try:
            return kfp.emit(pipeline, options), found
        except ImportError as error:
            raise UserError(
                f"--to kfp needs the package kfp: {error}", "pip install 'trainshed[kfp]'"
            ) from error
    found = too_large(pipeline)
    _refuse(found)
    from trainshed.pipelines.emit.text import documents

    if target == "local":
        from trainshed.pipelines.emit import local

        return documents(local.emit(pipeline, msgspec.structs.replace(options, python=sys.executable))), found
    from trainshed.pipelines.emit import tekton

    api: Literal["v1", "v1beta1"] = "v1beta1" if target == "tekton-v1beta1" else "v1"
    return documents(tekton.emit(pipeline, msgspec.structs.replace(options, api=api))), found


def refuse_too_large(pipeline: Pipeline) -> None:
    """Raise NotebookError when the program of a step does not fit into an object."""
    _refuse(too_large(pipeline))


def write(path: Path, text: str) -> None:
    """Write a file. Raises UserError when it cannot be written."""
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _refuse(found: list[Diagnostic]) -> None:
    if has_errors(found):
        raise NotebookError(found)


def counts(diagnostics: tuple[Diagnostic, ...]) -> Mapping[Severity, int]:
    """Return how many findings there are of each severity."""
    return {severity: sum(d.severity == severity for d in diagnostics) for severity in Severity}
