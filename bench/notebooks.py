"""How long a notebook takes to become a pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from bench.measure import Figure
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.emit import tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.text import documents
from trainshed.pipelines.notebook.cells import read

CELLS = 100


def notebook(cells: int) -> bytes:
    """Return a notebook: imports, functions, and steps in four branches that use both, with a magic in every tenth."""
    made = [_cell(["imports"], "import math\nimport os"), _cell(["functions"], _FUNCTIONS)]
    for i in range(cells - len(made)):
        tags = [f"step:s{i}", *([f"prev:s{i - 4}"] if i >= 4 else [])]
        before = f"x{i - 4}" if i >= 4 else "[1, 2]"
        source = f"x{i} = scaled({before}, {i})\nfor v in x{i}:\n    y{i} = math.sqrt(v)\nprint(f'{{x{i}}}')"
        made.append(_cell(tags, f"%matplotlib inline\n{source}" if i % 10 == 0 else source))
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}).encode()


_FUNCTIONS = "def scaled(values, by):\n    return [v * by for v in values]"


def _cell(tags: list[str], source: str) -> dict[str, object]:
    return {"cell_type": "code", "metadata": {"tags": tags}, "source": source, "outputs": []}


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of `repetitions` compilations in this process, and of as many starts of the command."""
    content = notebook(CELLS)
    compiled, emitted, command = [], [], []
    for _ in range(repetitions):
        started = time.perf_counter()
        pipeline = compile_notebook(read(content, "bench")).checked()
        compiled.append(time.perf_counter() - started)
        started = time.perf_counter()
        documents(tekton.emit(pipeline, Options()))
        emitted.append(time.perf_counter() - started)
    program = (
        "import sys, time; started = time.perf_counter()\n"
        "from trainshed.pipelines.compilation import compile_notebook\n"
        "from trainshed.pipelines.notebook.cells import read\n"
        "compile_notebook(read(sys.stdin.buffer.read(), 'bench')).checked()\n"
        "print(time.perf_counter() - started)"
    )
    for _ in range(repetitions):
        done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=True)
        command.append(float(done.stdout))
    return [
        Figure(f"compile a notebook of {CELLS} cells", "s", compiled, 0.3),
        Figure("the same in a fresh process, imports included (IPython for magics)", "s", command, 0.8),
        Figure("write it as Tekton YAML", "s", emitted, 0.5),
    ]
