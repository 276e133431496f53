"""How long a notebook's run takes on a warm cluster, and what a step costs beside its own code.

The candies notebook has four steps one after another, whose own code takes no time. What it takes longer than a
notebook of one step is three steps, from one's end to the next one's. Runs in which the pods of the next steps start
before their turn alternate with runs in which they do not. A notebook of 50 steps that wait for none is run as users
run it: four at a time. Alone, with the compiler's figures: `python -m bench.pipelines [REPETITIONS]`, about a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import notebooks
from bench.cluster import cluster, trainshed
from bench.measure import Figure, circumstances, table
from trainshed.pipelines.emit.program import program_text
from trainshed.sdk.notebook import pipeline_of

NOTEBOOK = Path(__file__).parent.parent / "examples/notebooks/candies.ipynb"
STEPS = 4
INDEPENDENT = 50
AT_ONCE = 4


_FORMS = {"prepared": "--prepare", "not prepared": "--no-prepare"}


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of so many runs of each form, after one of each that warms up the files."""
    whole: dict[str, list[float]] = {form: [] for form in _FORMS}
    step: dict[str, list[float]] = {form: [] for form in _FORMS}
    with cluster() as home, tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
        one = _independent(Path(folder), 1)
        for number in range(repetitions + 1):
            one_step = _seconds(home, one)
            for form, option in _FORMS.items():
                four_steps = _seconds(home, NOTEBOOK, option)
                if number:
                    whole[form].append(four_steps)
                    step[form].append((four_steps - one_step) / (STEPS - 1))
        outcome = _run(home, _independent(Path(folder), INDEPENDENT))
        assert outcome["succeeded"], outcome
        many, at_once = outcome["seconds"], _at_once(outcome["steps"])
    return [
        *(Figure(f"candies notebook, 4 steps, {form}", "s", whole[form], 2.0) for form in _FORMS),
        *(Figure(f"a step: pod, kernel, load, save; {form}", "s", step[form], 0.7) for form in _FORMS),
        Figure("processor time of a step's runner and kernel", "s", _processor(repetitions), 0.6),
        Figure(f"{INDEPENDENT} independent steps", "s", [many], 60.0),
        Figure("most of them at once", "steps", [at_once], AT_ONCE),
    ]


def _run(home: Path, notebook: Path, *options: str) -> Any:
    return json.loads(trainshed(home, "notebook", "run", str(notebook), "-o", "json", *options).stdout)


def _seconds(home: Path, notebook: Path, *options: str) -> float:
    started = time.perf_counter()
    outcome = _run(home, notebook, *options)
    assert outcome["succeeded"], outcome
    return time.perf_counter() - started


def _independent(folder: Path, steps: int) -> Path:
    """Return a notebook of steps that wait for none."""
    cells = [
        {"cell_type": "code", "metadata": {"tags": [f"step:s{i}"]}, "source": f"x{i} = {i}", "outputs": []}
        for i in range(steps)
    ]
    file = folder / f"independent-{steps}.ipynb"
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    return file


def _at_once(steps: list[Any]) -> int:
    """Return how many steps ran at the same time at most; one that ends in the second of another's start is over."""
    changes = sorted(change for s in steps for change in ((s["started"], 1), (s["ended"], -1)))
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _processor(repetitions: int) -> list[float]:
    """Return the processor time of a step that prints a line, in seconds: little depends on what else runs."""
    pipeline, _ = pipeline_of(NOTEBOOK)
    found = []
    with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
        program = Path(folder) / "program.json"
        program.write_text(program_text(pipeline, pipeline.steps[0]))
        command = [sys.executable, "-m", "trainshed.pipelines.runner", "--program", str(program)]
        command += ["--data", f"{folder}/data", "--run-name", "bench", "--report", f"{folder}/report.html"]
        environment = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        for number in range(repetitions + 1):
            before = os.times()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            after = os.times()
            if number:
                used = after.children_user + after.children_system
                found.append(used - before.children_user - before.children_system)
    return found


def main() -> None:
    """Print the figures as a table."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(circumstances(Path(__file__).parent.parent))
    print(table([*measure(repetitions), *notebooks.measure(repetitions)]))


if __name__ == "__main__":
    main()
