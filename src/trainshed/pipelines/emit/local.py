"""The embedded cluster: the same Tekton objects, with the interpreter that has Trainshed."""

from __future__ import annotations

from trainshed.pipelines.emit import tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.tekton import Object
from trainshed.pipelines.ir import Pipeline

AT_ONCE_ANNOTATION = "trainshed.dev/tasks-at-once"
DEFAULT_AT_ONCE = 4
"""Steps that run at the same time unless told otherwise."""


def emit(pipeline: Pipeline, options: Options) -> list[Object]:
    """Return the objects that run the pipeline once here."""
    made = tekton.emit(pipeline, options)
    run = made[-1]
    # One machine: each step is a kernel with its own memory. No limit of time: training takes as long as it takes.
    annotations = run["metadata"].setdefault("annotations", {})
    annotations[AT_ONCE_ANNOTATION] = str(options.at_once or DEFAULT_AT_ONCE)
    run["spec"].setdefault("timeouts", {"pipeline": "0"})
    return made
