"""The embedded cluster: the same Tekton objects, with the interpreter that has Trainshed."""

from __future__ import annotations

from trainshed.pipelines.emit import tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.tekton import Object
from trainshed.pipelines.ir import Pipeline


def emit(pipeline: Pipeline, options: Options) -> list[Object]:
    """Return the objects that run the pipeline once here."""
    return tekton.emit(pipeline, options)
