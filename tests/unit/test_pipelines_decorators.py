"""Functions as steps give the same kind of pipeline as a notebook."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.notebook_builder import edges
from trainshed.pipelines import pipeline, step
from trainshed.pipelines.diagnostics import NotebookError
from trainshed.pipelines.emit import tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import program
from trainshed.pipelines.runner.inside import Session
from trainshed.pipelines.runner.program import Circumstances, Job, Program

HALF = 0.5


def halved(value: float) -> float:
    return value * HALF


@step()
def load(count):  # type: ignore[no-untyped-def]
    rows = [float(i) for i in range(count)]
    label = "rows"
    return rows, label


@step(limits={"cpu": "1"}, retries=2)
def total(rows, power):  # type: ignore[no-untyped-def]
    """Add up."""
    result = halved(math.pow(sum(rows), power))
    return result


@step(distribute="DDP", num_workers=2)
def announce(title, value):  # type: ignore[no-untyped-def]
    text = f"{title}: {value}"
    print(text)
    return text


@pipeline(name="sums", description="Add up numbers")
def sums(count: int = 4, exponent: float = 2.0):  # type: ignore[no-untyped-def]
    """Add up."""
    numbers, what = load(count)
    squared = total(rows=numbers, power=exponent)
    announce(what, squared)


def test_edges_follow_the_data() -> None:
    made = sums.pipeline()
    assert made.name == "sums"
    assert edges(made) == [
        "load <-  |  | label, rows | count",
        "total <- load | rows | result | exponent",
        "announce <- load, total | title, value |  | ",
    ]
    assert made.step("total").settings.retries == 2
    assert made.step("announce").distribution is not None
    assert tekton.emit(made, Options())[0]["kind"] == "PipelineRun"


def test_a_step_is_a_function_outside_of_a_pipeline() -> None:
    assert load(2) == ([0.0, 1.0], "rows")
    assert total([1.0, 2.0], 2.0) == 4.5
    sums()


def test_steps_run_as_the_functions_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sums.pipeline()
    for one in made.steps:
        names: dict[str, Any] = {"__name__": "__main__"}
        wanted = msgspec.convert(program(one, made.parameters), Program)
        session = Session(Job(wanted, Circumstances(str(tmp_path), "r", parameters={"count": "3"})), names)
        session.begin()
        for block in [b for b in wanted.blocks if b.role != "step"]:
            exec(block.source, names)
        session.load()
        for block in [b for b in wanted.blocks if b.role == "step"]:
            exec(block.source, names)
        session.finish()
    assert capsys.readouterr().out == "rows: 4.5\n"


@pipeline()
def computes(count: int = 1):  # type: ignore[no-untyped-def]
    load(count + 1)


@pipeline()
def calls_others(count: int = 1):  # type: ignore[no-untyped-def]
    print(count)


@pipeline()
def unknown_name(count: int = 1):  # type: ignore[no-untyped-def]
    load(counts)  # type: ignore[name-defined]  # noqa: F821


@pipeline()
def without_default(count):  # type: ignore[no-untyped-def]
    load(count)


@pipeline()
def shadows(count: int = 1):  # type: ignore[no-untyped-def]
    count, other = load(count)  # noqa: RUF059


@pipeline()
def takes_more(count: int = 1):  # type: ignore[no-untyped-def]
    one, two = total(count, count)  # noqa: RUF059


@pipeline()
def empty():  # type: ignore[no-untyped-def]
    """Nothing."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (computes, "argument count of step load must be a name"),
        (calls_others, "print is no step"),
        (unknown_name, "counts is no parameter"),
        (without_default, "parameter count of pipeline without_default needs a default"),
        (shadows, "count is the name of a parameter"),
        (takes_more, "step total returns result"),
        (empty, "calls no step"),
    ],
)
def test_what_no_pipeline_can_be_made_of(function: Any, words: str) -> None:
    with pytest.raises(NotebookError, match=words):
        function.pipeline()


def test_wrong_steps() -> None:
    with pytest.raises(ValueError, match="distribute must be one of"):
        step(distribute="Foo")
    with pytest.raises(ValueError, match="at least 1"):
        step(distribute="DDP", num_workers=0)
