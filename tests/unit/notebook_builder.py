"""Notebooks for tests: cells as tags and source, written as one string each."""

from __future__ import annotations

import json
from typing import Any

from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.ir import Compiled, Pipeline
from trainshed.pipelines.notebook.cells import Notebook, read

Cell = tuple[str, str]
"""Tags, separated by blanks, and source."""


def content(*cells: Cell, nbformat: int = 4, **settings: Any) -> bytes:
    """Return the bytes of a notebook file. A cell whose tags are `markdown` is one."""
    made = [
        {"cell_type": "markdown", "metadata": {}, "source": [source]}
        if tags == "markdown"
        else {
            "cell_type": "code",
            "metadata": {"tags": tags.split()} if tags else {},
            "source": source.splitlines(keepends=True),
            "outputs": [],
            "execution_count": None,
        }
        for tags, source in cells
    ]
    metadata = {"kubeflow_notebook": settings} if settings else {}
    return json.dumps(
        {"nbformat": nbformat, "nbformat_minor": 5, "metadata": metadata, "cells": made}
    ).encode()


def notebook(*cells: Cell, **settings: Any) -> Notebook:
    """Return a notebook named `made`."""
    return read(content(*cells, **settings), "made")


def compiled(*cells: Cell, **settings: Any) -> Compiled:
    """Return what becomes of a notebook."""
    return compile_notebook(notebook(*cells, **settings))


def codes(*cells: Cell, **settings: Any) -> list[str]:
    """Return the codes of the findings."""
    return [d.code for d in compiled(*cells, **settings).diagnostics]


def chain(*sources: str, imports: str = "", functions: str = "", parameters: str = "") -> Compiled:
    """Return steps s1, s2, … that wait for one another in order."""
    cells: list[Cell] = [
        (tag, source)
        for tag, source in (
            ("imports", imports),
            ("functions", functions),
            ("pipeline-parameters", parameters),
        )
        if source
    ]
    for index, source in enumerate(sources, 1):
        cells.append((f"step:s{index}" + (f" prev:s{index - 1}" if index > 1 else ""), source))
    return compiled(*cells)


def edges(result: Compiled | Pipeline) -> list[str]:
    """Return a line for each step: `name <- previous | inputs | outputs | parameters`."""
    pipeline = result.checked() if isinstance(result, Compiled) else result
    return [
        f"{s.name} <- {', '.join(sorted(s.previous))} | {', '.join(i.name for i in s.inputs)}"
        f" | {', '.join(s.outputs)} | {', '.join(s.parameters)}"
        for s in pipeline.steps
    ]


def flow(result: Compiled) -> list[str]:
    """Return `inputs/outputs` of each step, in order."""
    return [
        f"{','.join(i.name for i in s.inputs) or '-'}/{','.join(s.outputs) or '-'}"
        for s in result.checked().steps
    ]
