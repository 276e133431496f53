"""Notebooks become pipelines: pure, from the notebook's bytes to the objects that run it.

    notebook     bytes → cells → tags and settings → steps
    names        what the code of a step defines, reads and changes
    graph        steps and names → data edges: who saves what, who loads it from whom
    ir           the checked pipeline, the one type that emitters read
    emit         ir → Tekton v1 or v1beta1, the local cluster, Kubeflow Pipelines v2
    lint         findings about code that compiles but will not do what it seems to
    python       `@step` and `@pipeline`: the same ir from functions
    diagnostics  every rule with its code, and what a finding is

Nothing here reads a file, a clock or the environment, and the same notebook gives the same bytes. What runs inside a
step's pod is `runner`: it may do all of that, and nothing here imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainshed.pipelines.python.decorators import pipeline, step

__all__ = ("pipeline", "step")


def __getattr__(name: str) -> Any:
    """Import the decorators when they are asked for: a step's pod starts without the compiler."""
    if name in __all__:
        from trainshed.pipelines.python import decorators

        return getattr(decorators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
