"""How long a notebook's run takes on a warm cluster, and what a step costs beside its own code.

The candies notebook has four steps one after another, whose own code takes no time. What it takes longer than a
notebook of one step is three steps, from one's end to the next one's. Runs in which the pods of the next steps start
before their turn alternate with runs in which they do not. A notebook of 50 steps that wait for none is run as users
run it: four at a time.

    .venv/bin/python -m bench.pipelines [REPETITIONS] [--write FILE]

prints these figures and the compiler's with median and spread, and writes the table to a file if told: about two
minutes on two quiet cores for the five repetitions that it takes otherwise. On busy ones the processor times count.
"""

from __future__ import annotations

import argparse
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
INDEPENDENT_RUNS = 3
AT_ONCE = 4


_FORMS = {"prepared": "--prepare", "not prepared": "--no-prepare"}


def measure(repetitions: int) -> list[Figure]:
    """Return the figures of so many runs of each form, after one of each that warms up the files."""
    whole: dict[str, list[float]] = {form: [] for form in _FORMS}
    step: dict[str, list[float]] = {form: [] for form in _FORMS}
    command: list[float] = []
    with cluster() as home, tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
        one = _independent(Path(folder), 1)
        for number in range(repetitions + 1):
            one_step = _seconds(home, one)
            for form, option in _FORMS.items():
                used = _children_seconds()
                four_steps = _seconds(home, NOTEBOOK, option)
                if number:
                    command.append(_children_seconds() - used)
                    whole[form].append(four_steps)
                    step[form].append((four_steps - one_step) / (STEPS - 1))
        outcomes = [
            _run(home, _independent(Path(folder), INDEPENDENT))
            for _ in range(min(repetitions, INDEPENDENT_RUNS))
        ]
        assert all(outcome["succeeded"] for outcome in outcomes), outcomes
    return [
        *(Figure(f"candies notebook, 4 steps, {form}", "s", whole[form], 2.0) for form in _FORMS),
        *(Figure(f"a step: pod, kernel, load, save; {form}", "s", step[form], 0.7) for form in _FORMS),
        Figure("processor time of a step's runner and kernel", "s", _processor(repetitions), 0.6),
        Figure("processor time of the command that follows them", "s", command, 0.6),
        Figure(f"{INDEPENDENT} independent steps", "s", [outcome["seconds"] for outcome in outcomes], 60.0),
        Figure(
            "most of them at once",
            "steps",
            [_at_once(outcome["steps"]) for outcome in outcomes],
            AT_ONCE,
            statistic="max",
        ),
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
            before = _children_seconds()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            if number:
                found.append(_children_seconds() - before)
    return found


def _children_seconds() -> float:
    """Return the processor time of the commands that have ended, in seconds."""
    used = os.times()
    return used.children_user + used.children_system


def main() -> None:
    """Print the figures as a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repetitions", nargs="?", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write them")
    given = parser.parse_args()
    figures = table([*measure(given.repetitions), *notebooks.measure(given.repetitions)])
    text = f"{circumstances(Path(__file__).parent.parent)}\n\n{figures}\n"
    print(text)
    if given.write:
        given.write.write_text(text)


if __name__ == "__main__":
    main()
