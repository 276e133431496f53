"""Running the compiled steps gives what running the notebook from top to bottom gives.

Steps run in one process, each in fresh names, with the runner's own saving and loading. Left out on purpose: two names
for one object, files, and what changes an object behind a call that nobody can see.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.unit.notebook_builder import Cell, content
from trainshed.findings import Severity
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.ir import Compiled, Pipeline, program
from trainshed.pipelines.notebook.cells import read
from trainshed.pipelines.runner.inside import Session
from trainshed.pipelines.runner.program import Circumstances, Job, Program

NAMES = ("a", "b", "c", "d")
FUNCTIONS = ("f", "g")


def fresh() -> dict[str, Any]:
    """Return the names of a kernel; what is displayed is logged."""
    log: list[Any] = []
    return {"__name__": "__main__", "display": lambda value: log.append(str(value)), "__log__": log}


def top_to_bottom(cells: list[Cell]) -> list[str]:
    """Return what the notebook logs."""
    names = fresh()
    for _, source in cells:
        exec(source, names)
    return list(names["__log__"])


def as_steps(pipeline: Pipeline, folder: Path) -> list[str]:
    """Return what the steps log, in the order of the notebook."""
    logs: dict[str, list[str]] = {}
    for step in pipeline.steps:
        made = msgspec.convert(program(step, pipeline.parameters), Program)
        names = fresh()
        session = Session(Job(made, Circumstances(str(folder), "run")), names)
        session.begin()
        for block in made.blocks:
            if block.role != "step":
                exec(block.source, names)
        session.load()
        for block in made.blocks:
            if block.role == "step":
                exec(block.source, names)
        session.finish()
        logs[step.name] = list(names["__log__"])
    return [line for name in sorted(logs, key=lambda n: int(n[1:])) for line in logs[name]]


name = st.sampled_from(NAMES)
number = st.integers(0, 9)


@st.composite
def statement(draw: st.DrawFn) -> str:
    """A line or two that read and set a few names. All values are lists of numbers."""
    to, one, other, n = draw(name), draw(name), draw(name), draw(number)
    function = draw(st.sampled_from(FUNCTIONS))
    return draw(
        st.sampled_from(
            [
                f"{to} = [{n}]",
                f"{to} = {one} + {other}",
                f"{to} = [v + {n} for v in {one}]",
                f"{to} = [v for v in {one} if v in {other}]",
                f"{to} += [{n}]",
                f"{to}.append({n})",
                f"{to}[0] = len({one})",
                f"if len({one}) > {n}:\n    {to} = [{n}]",
                f"for {to} in [{one} + [{n}], [{n}]]:\n    pass",
                f"while len({to}) < 2:\n    {to} = {to} + [{n}]",
                f"try:\n    {to} = [{one}[5]]\nexcept IndexError:\n    {to} = list({other})",
                f"def {function}(v):\n    return v + {one} + [{n}]",
                f"def {function}(v):\n    global {to}\n    {to} = v + [{n}]\n    return list({one})",
                f"def {function}(v):\n    {to}.append({n})\n    return v + [1]",
                f"{function} = lambda v: v + {one}",
                f"{to} = {function}([{n}])",
                f"{to} = sum(map({function}, [[{n}]]), [])",
                f"import math\n{to} = [math.isqrt(len({one}))]",
                f"{to} = [math.isqrt({n}) for _ in {one}]",
                f"class K:\n    def get(self):\n        return {one} + [{n}]\nk = K()",
                f"{to} = k.get()",
                f"{to} = [(w := {n}), w]",
                f"display(list({to}))",
                f"display({to} + {one})",
                f"{to} = list(CONSTANT)",
                "CONSTANT.append(8)",
                f"{to} = helper({one})",
                f"del {to}\n{to} = [{n}]",
            ]
        )
    )


START = """a, b, c, d = [1], [2], [3], [4]
def f(v):
    return v
def g(v):
    return v + [0]
import math
class K:
    def get(self):
        return [0]
k = K()"""


@st.composite
def notebooks(draw: st.DrawFn) -> list[Cell]:
    """Steps s0, s1, … that wait for some of those before; the last logs every name."""
    cells: list[Cell] = [
        ("imports", "import math"),
        ("functions", "CONSTANT = [7]\ndef helper(v):\n    return v + CONSTANT"),
        ("step:s0", START.replace("f = g = len", "def f(v):\n    return v\ndef g(v):\n    return v + [0]")),
    ]
    count = draw(st.integers(1, 4))
    for index in range(1, count + 1):
        before = draw(st.sets(st.integers(0, index - 1), min_size=1))
        source = "\n".join(draw(st.lists(statement(), min_size=1, max_size=4)))
        cells.append((f"step:s{index} " + " ".join(f"prev:s{i}" for i in sorted(before)), source))
    return [
        *cells,
        (f"step:s{count + 1} prev:s{count}", "display([a, b, c, d, f([1]), g([2]), k.get(), CONSTANT])"),
    ]


def says_something(result: Compiled) -> bool:
    return any(d.severity != Severity.INFO for d in result.diagnostics)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(cells=notebooks())
def test_steps_give_what_the_notebook_gives(cells: list[Cell], tmp_path: Path) -> None:
    """Unless a finding says that the order of the notebook is not kept."""
    file = content(*cells)
    result = compile_notebook(read(file, "made"))
    assert result == compile_notebook(read(file, "made"))
    check_producers(result)
    if says_something(result) or result.pipeline is None:
        event("has findings")
        return
    try:
        expected = top_to_bottom(cells)
    except Exception:
        event("fails from top to bottom")
        return
    event("runs")
    assert as_steps(result.pipeline, tmp_path / str(hash(file))) == expected


def check_producers(result: Compiled) -> None:
    """Each input comes from one step before, which saves it."""
    if result.pipeline is None:
        assert any(d.severity == Severity.ERROR for d in result.diagnostics)
        return
    before: dict[str, set[str]] = {}
    for step in result.pipeline.steps:
        before[step.name] = {p for name in step.previous for p in before[name] | {name}}
        assert len({i.name for i in step.inputs}) == len(step.inputs)
        for wanted in step.inputs:
            assert wanted.step in before[step.name]
            assert wanted.output in result.pipeline.step(wanted.step).outputs


FACTORY = (
    "x = 2\ndef make():\n    y = 3\n    def inner():\n        return x * y\n    return inner\nh = make()"
)
PARTIAL = "import functools\nx = 1\ndef add(v, w):\n    return v + w + x\np = functools.partial(add, 1)"


@pytest.mark.parametrize(
    "sources",
    [
        ("class A:\n    pass\na = A()", "display(isinstance(a, A))"),
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)", "display(f(5))"),
        (FACTORY, "x = 5\ndisplay(h())"),
        (PARTIAL, "x = 10\ndisplay(p(2))"),
    ],
)
def test_objects_with_code_work_in_the_next_step(sources: tuple[str, ...], tmp_path: Path) -> None:
    cells: list[Cell] = [(f"step:s{i}" + (f" prev:s{i - 1}" if i else ""), s) for i, s in enumerate(sources)]
    pipeline = compile_notebook(read(content(*cells), "made")).checked()
    assert as_steps(pipeline, tmp_path) == top_to_bottom(cells)
