"""Files of functions: what of the file a step gets, what a call may be, and what is said of one that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.notebook_builder import edges
from trainshed.pipelines import step
from trainshed.pipelines.diagnostics import NotebookError
from trainshed.pipelines.ir import Compiled, program
from trainshed.pipelines.runner.inside import Session
from trainshed.pipelines.runner.program import Circumstances, Job, Program
from trainshed.sdk.errors import UserError
from trainshed.sdk.notebook import load

HEAD = "from trainshed.pipelines import pipeline, step\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what becomes of a file with this text."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def make(text: str, head: str = HEAD, name: str = "work.py") -> Compiled:
        (tmp_path / "work.py").write_text(head + text)
        return load(tmp_path / name)

    return make


def run(result: Compiled, folder: Path, **parameters: str) -> None:
    """Run the steps one after the other, each in fresh names."""
    made = result.checked()
    for one in made.steps:
        wanted = msgspec.convert(program(one, made.parameters), Program)
        names: dict[str, Any] = {"__name__": "__main__"}
        session = Session(Job(wanted, Circumstances(str(folder / "data"), "r", parameters=parameters)), names)
        inside = type("Inside", (), {"define": session.define})
        session.begin()
        for block in [b for b in wanted.blocks if b.role != "step"]:
            exec(wanted.statement(block, "inside"), {"inside": inside} if block.file else names)
        session.load()
        for block in [b for b in wanted.blocks if b.role == "step"]:
            exec(wanted.statement(block, "inside"), names)
        session.finish()


WHOLE = """
from __future__ import annotations
import math, sys
from trainshed.pipelines import pipeline, step

if sys.version_info > (3, 0):
    SCALE: int = 2
else:
    SCALE = 3

calls = []
calls.append(1 / 0) if False else None
undone = open("there-is-no-such-file") if __name__ == "__main__" else None

class Box:
    def __init__(self, value: Thing) -> None:
        self.value = value

def twice(x):
    return x * SCALE

@step
def load(count: int, *, label: str = "rows"):
    return [twice(math.floor(i + 0.5)) for i in range(count)], label

@step(name="pick", retries=2)
def choose(rows, last=False):
    # a return in the middle, and another at the end
    if last:
        return rows[-1]
    return rows[0]

@step
def box(value, scale):
    return Box(twice(value) + scale)

@step
def show(one, boxes, SCALE=1):
    print(one, [b.value for b in boxes] if isinstance(boxes, list) else boxes.value, isinstance(boxes, Box), SCALE)

@pipeline(name="all-of-it", steps_defaults={"labels": {"team": "a"}})
def work(count: int = 3, scale: float = 1):
    rows, label = load(count=count, label="list")
    first: int = choose(rows)
    show(choose(rows, True), box(first, scale), SCALE=-1)
    show(label, boxed := None) if False else None

@pipeline
def second(n: int = 1):
    return choose([-1, {"a": 2}])
"""


def test_a_step_gets_what_it_names_of_its_file(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WHOLE.replace("    show(label, boxed := None) if False else None\n", "")
    result = made(text, head="", name="work.py:work")
    assert edges(result) == [
        "load <-  |  | result | count",
        "pick <- load | rows | result | ",
        "pick_2 <- load | rows | result | ",
        "box <- pick | value | result | scale",
        "show <- box, pick_2 | boxes, one |  | ",
    ]
    run(result, tmp_path)
    assert capsys.readouterr().out == "4 1.0 True -1\n"
    run(result, tmp_path, count="4", scale="0.5")
    assert capsys.readouterr().out == "6 0.5 True -1\n"
    made_ = result.checked()
    definitions = made_.step("load").blocks[0]
    assert (definitions.file, "math" in definitions.source, "choose" in definitions.source) == (
        "work.py",
        True,
        False,
    )
    assert "there-is-no-such-file" not in definitions.source
    assert [s.settings.labels for s in made_.steps] == [{"team": "a"}] * 5
    assert made_.step("pick").settings.retries == 2
    (second,) = made(text, head="", name="work.py:second").checked().steps
    assert second.blocks[-1].source == "choose([-1, {'a': 2}]);"


def test_what_a_step_is_given_does_not_hide_what_its_file_has(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
import math

@step
def rows(n):
    rows = [n, n]
    return rows

@step
def total(math, rows):
    return halved(sum(rows)) + math

def halved(x):
    return math.floor(x / 2)

@step
def show(total, limit):
    print(total, limit)

limit = 7

def unused():
    return limit

@pipeline
def work(limit: int = 5):
    show(total(limit, rows(limit)), limit)
"""
    run(made(text), tmp_path)
    assert capsys.readouterr().out == "10 5\n"


def test_a_class_is_in_every_step_with_what_it_is_made_of(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
import enum as kinds
from collections import UserList as Base

START = 3

class Sort(kinds.Enum):
    A = START

class Row(Base):
    sort = Sort.A

@step
def first(n):
    return n

@step
def second(n):
    row = Row([n])
    return row

@step
def third(row):
    print(row, row.sort)

@pipeline
def work(n: int = 1):
    third(second(first(n)))
"""
    run(made(text), tmp_path)
    assert capsys.readouterr().out == "[1] Sort.A\n"


def test_what_stands_in_a_call_of_another_file_is_found_there(made: Any, tmp_path: Path) -> None:
    (tmp_path / "their_steps.py").write_text(HEAD + "@step\ndef one(x):\n    return y\n")
    result = made("import their_steps\n@pipeline\ndef work(n: int = 1):\n    their_steps.one(n)\n")
    (found,) = result.diagnostics
    assert (found.code, found.file, found.line) == ("NB603", "their_steps.py", 4)


ONE = "@step\ndef one(x):\n    return x\n"


@pytest.mark.parametrize(
    ("text", "code", "words", "line"),
    [
        (
            ONE + "@pipeline\ndef work(n: int = 1):\n    one(n, n)",
            "NB602",
            "too many positional arguments",
            7,
        ),
        (ONE + "@pipeline\ndef work():\n    one()", "NB602", "missing a required argument: 'x'", 7),
        (
            ONE + "@pipeline\ndef work(n: int = 1):\n    one(n, y=n)",
            "NB602",
            "unexpected keyword argument 'y'",
            7,
        ),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    one(*n)", "NB602", "one by one", 7),
        (
            ONE + "@pipeline\ndef work(n: int = 1):\n    a = one(b)\n    b = one(a)",
            "NB603",
            "b is no parameter",
            7,
        ),
        (
            ONE + "@pipeline\ndef work(n: int = 1):\n    for i in n:\n        one(i)",
            "NB601",
            "may only call steps",
            7,
        ),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    a = b = one(n)", "NB601", "once", 7),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    a.b = one(n)", "NB601", "to names", 7),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    a, b = one(n)", "NB602", "step one returns x", 7),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    two(n)", "NB603", "two is not defined", 7),
        (ONE + "@pipeline\ndef work(n: int = 1):\n    return n", "NB601", "what its steps return", 7),
        (ONE + "@pipeline\ndef work(n: int = 'x'):\n    one(n)", "NB402", "said to be int", 6),
        (ONE + "@pipeline\ndef work(n=[1]):\n    one(n)", "NB402", "not list", 6),
        (ONE + "@pipeline\ndef work(*n):\n    one(n)", "NB402", "takes \\*n", 6),
        (
            "@step\ndef one(x):\n    yield x\n@pipeline\ndef work(n: int = 1):\n    one(n)",
            "NB604",
            "generator",
            3,
        ),
        (
            "@step\nasync def one(x):\n    pass\n@pipeline\ndef work(n: int = 1):\n    one(n)",
            "NB604",
            "async",
            2,
        ),
        ("one = step(lambda x: x)\n@pipeline\ndef work(n: int = 1):\n    one(n)", "NB604", "`def`", 2),
        (
            "@step\ndef one(x):\n    return y\n@pipeline\ndef work(n: int = 1):\n    one(n)",
            "NB603",
            "uses y",
            4,
        ),
        (
            "@step(name='a_b')\ndef one():\n    pass\n@step(name='_')\ndef two():\n    pass\n"
            "@pipeline\ndef work():\n    one()\n    two()",
            "NB107",
            "no resource can be named after step _",
            11,
        ),
        (
            ONE + "@step(name='one')\ndef other(x):\n    pass\n"
            "@pipeline\ndef work(n: int = 1):\n    one(n)\n    other(n)",
            "NB106",
            "two steps are called one",
            11,
        ),
        (
            "def around():\n    x = 1\n    @step\n    def one():\n        return x\n    return one\none = around()\n"
            "@pipeline\ndef work():\n    one()",
            "NB604",
            "uses x of the function",
            5,
        ),
    ],
)
def test_what_is_no_pipeline_is_a_finding_with_a_line(
    text: str, code: str, words: str, line: int, made: Any
) -> None:
    result = made(text + "\n")
    assert result.pipeline is None
    (found,) = result.diagnostics
    assert (found.code, found.line) == (code, line)
    pytest.raises(NotebookError, result.checked).match(words)
    assert found.fix


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("x = (", "work.py", "work.py, line 2: SyntaxError"),
        ("import sys\nsys.exit(3)", "work.py", "work.py, line 3: SystemExit: 3"),
        ("step(limits={'cpu': None})", "work.py", "line 2: ValueError: limits: cpu must be a text"),
        ("", "work.py", "has no @pipeline"),
        ("@pipeline\ndef a(): pass\n@pipeline\ndef b(): pass", "work.py", "has 2 pipelines"),
        ("@pipeline\ndef a(): pass", "work.py:b", "has no @pipeline b"),
        ("", "other.py", "No such file"),
    ],
)
def test_files_that_cannot_be_read(text: str, name: str, words: str, made: Any) -> None:
    with pytest.raises(UserError, match=words):
        made(text, name=name)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "Bad-Name"}, "name: must have"),
        ({"retries": -1}, "retries: must be a number"),
        ({"timeout": "soon"}, "timeout: must be a duration"),
        ({"timeout": True}, "timeout: must be a duration"),
        ({"labels": ["a"]}, "labels: must be a dictionary"),
        ({"labels": {"a b": "c"}}, "labels: a b='c'"),
        ({"env": {"A": 1}}, "env: A must be a text"),
        ({"limits": {"cpu": "a lot"}}, "limits: cpu='a lot'"),
        ({"num_workers": 2}, "need distribute"),
        ({"distribute": "JAX", "nproc_per_node": 2}, "nproc_per_node is for"),
        ({"distribute": "DDP", "num_workers": "2"}, "num_workers must be a whole number"),
    ],
)
def test_what_a_step_may_not_be_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        step(**given)


def test_what_a_step_may_be_told() -> None:
    @step(
        name="told",
        labels={"a/b": "c"},
        annotations={"note": "two\nlines: here"},
        limits={"cpu": 0.5, "nvidia.com/gpu": 1},
        requests={"memory": "1Gi"},
        env={"A": "b:c"},
        image="here:5000/image:1",
        timeout=90,
        retry_count=2,
    )
    def one() -> None: ...

    said = one.settings
    assert (one.name, said.labels, said.annotations) == ("told", {"a/b": "c"}, {"note": "two\nlines: here"})
    assert (said.limits, said.requests) == ({"cpu": "0.5", "nvidia.com/gpu": "1"}, {"memory": "1Gi"})
    assert (said.env, said.image, said.timeout, said.retries) == ({"A": "b:c"}, "here:5000/image:1", "90s", 2)


def test_settings_that_are_unknown_are_a_warning(made: Any) -> None:
    result = made(ONE + "@pipeline(volums=[])\ndef work(n: int = 1):\n    one(n)\n")
    assert [d.code for d in result.diagnostics] == ["NB002"]
    assert result.checked().name == "work"
