"""Tags, merging of cells, parameters, metrics and settings: the tables of Kale's tests, and what was wrong there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.notebook_builder import Cell, codes, compiled, content, notebook
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.diagnostics import RULES, NotebookError
from trainshed.pipelines.emit.program import too_large
from trainshed.pipelines.notebook.cells import Cell as CodeCell
from trainshed.pipelines.notebook.cells import Notebook, read
from trainshed.pipelines.notebook.literals import metrics, parameters
from trainshed.pipelines.notebook.settings import settings_of
from trainshed.pipelines.notebook.steps import draft
from trainshed.pipelines.notebook.tags import CellKind, tagged, understand


def parts(*cells: Cell) -> Any:
    return draft([tagged(cell)[0] for cell in notebook(*cells).cells])[0]


def sources(cells: tuple[CodeCell, ...]) -> list[str]:
    return [cell.source for cell in cells]


@pytest.mark.parametrize(
    ("tags", "kind", "name"),
    [
        ("", CellKind.NONE, None),
        ("imports", CellKind.IMPORTS, None),
        ("functions", CellKind.FUNCTIONS, None),
        ("pipeline-parameters", CellKind.PARAMETERS, None),
        ("pipeline-metrics", CellKind.METRICS, None),
        ("skip", CellKind.SKIP, None),
        ("skip block:other", CellKind.SKIP, None),
        ("imports prev:other", CellKind.IMPORTS, None),
        ("block:step1", CellKind.STEP, "step1"),
        ("step:step1 prev:step0", CellKind.STEP, "step1"),
        ("step:", CellKind.NONE, None),
        ("notebook:other", CellKind.NOTEBOOK, "other"),
    ],
)
def test_a_cell_is_what_its_tags_say(tags: str, kind: CellKind, name: str | None) -> None:
    found, _ = tagged(notebook((tags, "x = 1")).cells[0])
    assert (found.kind, found.name) == (kind, name)


@pytest.mark.parametrize(
    ("tag", "args"),
    [
        ("annotation:a/b:c:d", ("a/b", "c:d")),
        ("label:app.kubernetes.io/part-of:x", ("app.kubernetes.io/part-of", "x")),
        ("limit:hugepages-2Mi:1", ("hugepages-2Mi", "1")),
        ("limit:nvidia.com/gpu:2", ("nvidia.com/gpu", "2")),
        ("image:registry:5000/a/b:1", ("registry:5000/a/b:1",)),
        ("secret:my.secret:key:NAME", ("my.secret", "key", "NAME")),
        ("timeout:1h30m", ("1h30m",)),
        ("distribute:DDP", ("DDP",)),
        ("numWorkers:12", ("12",)),
    ],
)
def test_arguments_of_tags(tag: str, args: tuple[str, ...]) -> None:
    said = understand(tag)
    assert said is not None
    assert said.args == args


@pytest.mark.parametrize(
    "tag", ["Step:a", "step:A", "step:a-b", "block:1", "cache:on", "numWorkers:0", "retry:1", "x"]
)
def test_what_is_no_tag_is_an_error(tag: str) -> None:
    assert codes((tag, "x = 1"), ("step:a", "y = 1"))[0] == "NB101"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([("", "1"), ("pipeline-parameters", "1"), ("", "1")], ["1", "1"]),
        ([("pipeline-parameters", "1"), ("step:a", "2"), ("pipeline-parameters", "1")], ["1", "1"]),
        (
            [("pipeline-parameters", "1"), ("skip", "2"), ("pipeline-parameters", "1"), ("", "1")],
            ["1", "1", "1"],
        ),
        (
            [("pipeline-parameters", "1"), ("imports", "2"), ("pipeline-parameters", "1"), ("", "1")],
            ["1", "1", "1"],
        ),
        ([("pipeline-parameters", "1"), ("skip", "2"), ("", "1")], ["1", "1"]),
    ],
)
def test_parameters_cells_merge(cells: list[Cell], expected: list[str]) -> None:
    assert sources(parts(*cells).parameters) == expected


def test_cells_of_a_step_merge() -> None:
    made = parts(
        ("step:a", "1"),
        ("markdown", "text"),
        ("", "2"),
        ("skip", "no"),
        ("step:", "3"),
        ("step:b", "4"),
        ("step:a", "5"),
    )
    assert {s.name: sources(s.cells) for s in made.steps} == {"a": ["1", "2", "3", "5"], "b": ["4"]}


def test_tags_of_a_later_cell_of_a_step_count() -> None:
    pipeline = compiled(("step:a", "1"), ("step:b", "2"), ("step:b prev:a limit:cpu:2", "3")).checked()
    assert pipeline.step("b").previous == ("a",)
    assert pipeline.step("b").settings.limits == {"cpu": "2"}


def test_a_step_may_name_a_later_one_as_previous() -> None:
    pipeline = compiled(("step:a prev:b", "print(x)"), ("step:b", "x = 1")).checked()
    assert [s.name for s in pipeline.steps] == ["b", "a"]


A: Cell = ("step:a", "x = 1")


@pytest.mark.parametrize(
    ("cells", "code", "words"),
    [
        ([("prev:a", "x = 1")], "NB102", "prev"),
        ([A, ("limit:cpu:1 annotation:a:b", "x = 1")], "NB102", "limit"),
        ([("step:a step:b", "x = 1")], "NB103", "a, b"),
        ([("step:a prev:train", "x = 1"), ("step:training", "y = 1")], "NB104", "train does not exist"),
        ([("step:a prev:a", "x = 1")], "NB105", "waits for itself"),
        ([("step:a prev:b", "x = 1"), ("step:b prev:a", "y = 1")], "NB105", "wait for one another"),
        ([A, ("step:_a", "y = 1")], "NB106", "both be called a"),
        ([("step:a_b", "x = 1"), ("step:a__b", "x = 1"), ("step:a_b_", "x = 1")], "NB106", "called a-b"),
        ([("step:_", "x = 1")], "NB107", "step _"),
        ([("step:" + "a" * 60, "x = 1")], "NB107", "aaa"),
        ([("", "z = 1"), A], "NB108", "cell 1"),
        ([("imports limit:cpu:1", "import os"), A], "NB109", "limit"),
        ([("pipeline-metrics", "print(x)"), A], "NB111", "end of the notebook"),
        ([("imports nonsense", "import os"), A], "NB101", "nonsense"),
        ([("step:a", "x = = 1")], "NB301", "invalid syntax"),
        ([("step:a", "!pip install seaborn")], "NB302", "installed"),
        ([("step:a", "x = 1\n%pip install seaborn")], "NB302", "installed"),
        ([("functions", "y = x + 1"), A], "NB208", "step a"),
        ([A, ("pipeline-metrics", "print(unknown)")], "NB405", "unknown"),
        ([("imports", "import os")], "NB001", "no step"),
        ([("", "")], "NB001", "no code"),
        ([("notebook:other", "x = 1")], "NB115", "contains code"),
        ([("notebook:other", "")], "NB115", "no path"),
    ],
)
def test_findings(cells: list[Cell], code: str, words: str) -> None:
    every = compiled(*cells).diagnostics
    found = [d for d in every if d.code == code]
    assert any(words in d.message for d in found), found
    assert all(d.fix for d in every), every


def test_suggestions() -> None:
    (found,) = compiled(("step:a prev:train", "x = 1"), ("step:training", "y = 1")).diagnostics
    assert found.fix == "did you mean prev:training?"
    (found,) = compiled(("step:a numWorker:2", "x = 1")).diagnostics
    assert found.fix == "did you mean numWorkers:N?"


def test_a_syntax_error_names_cell_and_line() -> None:
    (found,) = compiled(("markdown", "# title"), ("step:a", "x = 1\ny = (")).diagnostics
    assert (found.code, found.cell, found.line) == ("NB301", 2, 2)


def test_tags_must_be_text() -> None:
    raw = json.loads(content(A))
    raw["cells"][0]["metadata"]["tags"] = [3, "step:a"]
    result = compile_notebook(read(json.dumps(raw).encode(), "made"))
    assert [d.message for d in result.diagnostics] == ["tags must be strings, not int: 3"]


def test_a_notebook_without_tags_is_one_step() -> None:
    result = compiled(("", "x = 1"), ("markdown", "text"), ("", "print(x)"))
    assert [d.code for d in result.diagnostics] == ["NB113"]
    assert [len(s.blocks) for s in result.checked().steps] == [2]


@pytest.mark.parametrize(
    ("tags", "code", "words"),
    [
        ("distribute:MultiWorkerMirroredStrategy numWorkers:2", "NB102", "needs a tag step:NAME"),
        (
            "block:t distribute:MultiWorkerMirroredStrategy distribute:ParameterServerStrategy numWorkers:2",
            "NB110",
            '"ParameterServerStrategy"',
        ),
        (
            "block:t distribute:MultiWorkerMirroredStrategy numParameterServers:1 numWorkers:2",
            "NB110",
            '"numParameterServers:n"',
        ),
        ("block:t distribute:MultiWorkerMirroredStrategy", "NB110", "n is a positive integer"),
        ("block:t distribute:MultiWorkerMirroredStrategy numWorkers:0", "NB110", "n is a positive integer"),
        (
            "block:t distribute:MultiWorkerMirroredStrategy numWorkers:1 numWorkers:2",
            "NB110",
            "must be unique",
        ),
        ("block:t distribute:DDP distribute:JAX numWorkers:2", "NB110", "2 strategies"),
        ("block:t numWorkers:2", "NB109", "without a tag distribute"),
        ("block:t distribute:Foo", "NB109", "distribute:Foo has no effect"),
        ("block:t distribute:JAX numWorkers:2 nprocPerNode:2", "NB109", "distribute:DDP only"),
        ("block:t distribute workers:2", "NB112", "old spelling"),
    ],
)
def test_findings_about_distribution(tags: str, code: str, words: str) -> None:
    every = compiled((tags, "x = 1")).diagnostics
    found = [d for d in every if d.code == code]
    assert any(words in d.message for d in found), found
    assert all(d.fix for d in every), every


def test_all_cells_of_a_distributed_step_run_on_all_workers() -> None:
    pipeline = compiled(
        ("step:t distribute:DDP numWorkers:2 nprocPerNode:4", "x = 1"), ("", "y = 1"), ("step:t", "z = 1")
    ).checked()
    (step,) = pipeline.steps
    assert [b.source for b in step.blocks] == ["x = 1", "y = 1", "z = 1"]
    assert step.distribution is not None
    assert (step.distribution.kind, step.distribution.workers, step.distribution.nproc_per_node) == (
        "PyTorchJob",
        2,
        4,
    )


def test_a_worker_may_not_be_called_as_another_step() -> None:
    assert "NB106" in codes(("step:t distribute:DDP numWorkers:2", "x = 1"), ("step:t1", "y = 1"))


def cell(source: str) -> list[CodeCell]:
    return [CodeCell(1, source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        ("# nothing\n'text'", []),
        (
            "a = 1\nb = 'x'\nc = 1.5\nd = True",
            [("a", "int", 1), ("b", "str", "x"), ("c", "float", 1.5), ("d", "bool", True)],
        ),
        ("a = -1", [("a", "int", -1)]),
        ("a: int = 3", [("a", "int", 3)]),
        ("a = 1\na = 2", [("a", "int", 2)]),
        ("Aa = 1", [("Aa", "int", 1)]),
    ],
)
def test_parameters(source: str, expected: list[tuple[str, str, object]]) -> None:
    found, problems = parameters(cell(source))
    assert [(p.name, p.type, p.default) for p in found] == expected
    assert not problems


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("a = None", "NB402"),
        ("a = [1]", "NB402"),
        ("a = b", "NB402"),
        ("a = 1 + 1", "NB402"),
        ("a, b = 3", "NB401"),
        ("a = b = 3", "NB401"),
        ("a.b = 3", "NB401"),
        ("print(1)", "NB401"),
        ("import os", "NB401"),
        ("a = 1\nA = 2", "NB403"),
        ("a = (", "NB301"),
    ],
)
def test_wrong_parameters(source: str, code: str) -> None:
    (found,) = parameters(cell(source))[1]
    assert found.code == code
    assert found.fix


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", {}),
        ("\n\n# text\n", {}),
        ("print(a)", {"a": "a"}),
        ("print(a)\nprint(b_c)\nprint(Acc)", {"a": "a", "b-c": "b_c", "Acc": "Acc"}),
    ],
)
def test_metrics(source: str, expected: dict[str, str]) -> None:
    found, problems = metrics(cell(source))
    assert {m.key: m.variable for m in found} == expected
    assert not problems


@pytest.mark.parametrize(
    "source", ["print(f(a))", "def f(): pass", "a", "print('acc', a)", "print(_a)", "print()"]
)
def test_wrong_metrics(source: str) -> None:
    assert [d.code for d in metrics(cell(source))[1]] == ["NB404"]


def settings(**given: Any) -> tuple[Any, list[str]]:
    found, problems = settings_of(Notebook("My Notebook", (), given))
    assert all(d.fix for d in problems), problems
    return found, [d.code for d in dict.fromkeys(problems)]


def test_settings_of_all_generations_are_taken() -> None:
    found, problems = settings(
        pipeline_name="p",
        experiment_name="",
        docker_image="old/image:1",
        enable_caching=False,
        timeout=60,
        volume_access_mode="rwo",
        storage_class_name="fast",
        security_context={"run_as_user": 1000},
        volumes=[
            {"name": "raw-data", "mount_point": "/raw", "type": "pvc", "expose_as_env_var": True},
            {
                "name": "work",
                "mount_point": "/work",
                "type": "new_pvc",
                "size": "5",
                "size_type": "Gi",
                "annotations": [],
            },
        ],
    )
    assert problems == []
    assert (found.image, found.caching, found.timeout, found.run_as_user) == ("old/image:1", False, 60, 1000)
    raw, work = found.volumes
    assert (raw.env, raw.size) == ("KALE_VOLUME_RAW_DATA", None)
    assert (work.size, work.storage_class, work.access_mode) == ("5Gi", "fast", "ReadWriteOnce")


def test_a_notebook_without_a_name_is_called_as_its_file() -> None:
    assert settings()[0].name == "my-notebook"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"pipeline_name": "A B"}, "NB003"),
        ({"pipeline_name": "a" * 70}, "NB003"),
        ({"timeout": 0}, "NB003"),
        ({"timeout": "60"}, "NB003"),
        ({"timeout": True}, "NB003"),
        ({"volume_access_mode": "rwx"}, "NB003"),
        ({"volumes": [{"name": "a", "mount_point": "/a", "type": "clone"}]}, "NB003"),
        ({"volumes": [{"name": "a", "mount_point": "a", "type": "pvc"}]}, "NB003"),
        ({"volumes": ["a"]}, "NB003"),
        ({"pipelinename": "a"}, "NB002"),
        ({"autosnapshot": True}, "NB004"),
    ],
)
def test_wrong_settings(given: dict[str, Any], code: str) -> None:
    assert settings(**given)[1] == [code]


def test_the_steps_own_tag_beats_the_default() -> None:
    pipeline = compiled(
        ("step:a limit:cpu:2", "x = 1"), ("step:b", "y = 1"), steps_defaults=["limit:cpu:1"]
    ).checked()
    assert [s.settings.limits for s in pipeline.steps] == [{"cpu": "2"}, {"cpu": "1"}]
    assert "NB003" in codes(A, steps_defaults=["prev:a"])


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"nbformat": 4}',
        b'{"nbformat": 4, "cells": 3}',
        b'{"nbformat": 4, "cells": [], "metadata": {"kubeflow_notebook": 3}}',
        b"\xff\xfe",
        b'{"nbformat": 2}',
    ],
)
def test_what_is_no_notebook_is_refused(wrong: bytes) -> None:
    with pytest.raises(NotebookError, match="not a Jupyter notebook"):
        read(wrong, "made")


def test_notebooks_of_format_3_are_read() -> None:
    cell = {"cell_type": "code", "language": "python", "metadata": {"tags": ["step:a"]}, "input": ["x = 1"]}
    sheets = [{"metadata": {}, "cells": [cell | {"outputs": []}]}]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": sheets}
    assert [s.name for s in compile_notebook(read(json.dumps(old).encode(), "old")).checked().steps] == ["a"]


def test_three_hundred_cells() -> None:
    cells: list[Cell] = [("step:s0", "x0 = 0")]
    cells += [(f"step:s{i} prev:s{i - 1}", f"x{i} = x{i - 1} + 1") for i in range(1, 300)]
    pipeline = compiled(*cells).checked()
    assert [[i.name for i in s.inputs] for s in pipeline.steps[1:]] == [[f"x{i}"] for i in range(299)]


def test_a_program_that_does_not_fit_is_found() -> None:
    pipeline = compiled(("step:a", "x = '" + "y" * 300_000 + "'")).checked()
    assert [d.code for d in too_large(pipeline)] == ["NB304"]


def test_codes_and_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    assert all(rule.meaning.endswith(".") for rule in RULES.values())


def test_a_notebook_whose_only_tag_is_wrong_is_not_called_untagged() -> None:
    assert codes(("step:a-b", "x = 1")) == ["NB101"]
    assert codes(("", "x = 1")) == ["NB113"]
