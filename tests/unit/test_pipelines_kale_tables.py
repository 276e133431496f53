"""Cases of Kale's own tests that no other test here has: tags, cells, names, volumes, notebooks of notebooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.notebook_builder import Cell, chain, codes, compiled, content, edges, flow
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.notebook.cells import read
from trainshed.pipelines.notebook.tags import understand

A: Cell = ("step:a", "x = 1")


@pytest.mark.parametrize(
    ("tag", "args"),
    [
        ("cache:enabled", ("enabled",)),
        ("report:disabled", ("disabled",)),
        ("secret:plain:key:NAME", ("plain", "key", "NAME")),
        ("image:localhost:5000/a@sha256:00", ("localhost:5000/a@sha256:00",)),
        ("limit:amd.com/gpu:1", ("amd.com/gpu", "1")),
        ("prev:_a1", ("_a1",)),
    ],
)
def test_tags_of_kale_2(tag: str, args: tuple[str, ...]) -> None:
    said = understand(tag)
    assert said is not None
    assert said.args == args


@pytest.mark.parametrize(
    "tag",
    [
        "report:on",
        "image:",
        "secret:A:key:NAME",
        "secret:a:k/y:NAME",
        "secret:a:key:1NAME",
        "secret:a:key",
        "step:1a",
        "prev:",
        "prev:A",
        "limit:cpu",
        "annotation:a/b/c:d",
        "distribute:2",
        "numWorkers:two",
    ],
)
def test_tags_of_another_form_are_errors(tag: str) -> None:
    assert codes((f"step:a {tag}" if not tag.startswith("step") else tag, "x = 1"))[0] == "NB101"


@pytest.mark.parametrize(
    "tag", ["label:a:b", "annotation:a:b", "secret:a:b:C", "image:i", "cache:enabled", "report:enabled"]
)
def test_what_is_about_a_step_needs_one(tag: str) -> None:
    assert codes(A, (f"imports {tag}", "import os"))[0] == "NB109"
    assert codes((tag, "y = 1"), A)[0] == "NB102"


def test_the_last_of_two_tags_counts_and_the_same_previous_step_twice_is_one() -> None:
    pipeline = compiled(
        A, ("step:b prev:a prev:a limit:cpu:1 limit:cpu:2 image:one image:two", "print(x)")
    ).checked()
    step = pipeline.step("b")
    assert (step.previous, step.settings.limits, step.settings.image) == (("a",), {"cpu": "2"}, "two")


def test_the_prelude_is_imports_then_functions_wherever_they_stand() -> None:
    pipeline = compiled(
        ("functions", "def f(): ..."), A, ("imports", "import os"), ("", "import re"), ("step:b", "f()")
    ).checked()
    for step in pipeline.steps:
        assert [b.source for b in step.blocks[:3]] == ["import os", "import re", "def f(): ..."]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(("a = 1", "display(a)\nget_ipython()"), ["-/a", "a/-"], id="names of the kernel"),
        pytest.param(("a = 1", "print(f'{a:>{a}}')"), ["-/a", "a/-"], id="f-string"),
        pytest.param(
            ("def d(f):\n    return f", "@d\ndef g(): ...", "g()"), ["-/d", "d/g", "g/-"], id="decorator"
        ),
        pytest.param(("import shop\na = shop.a()", "a.run()"), ["-/a", "a/-"], id="attribute called"),
        pytest.param(("x = 1\ny = 2\ny", "print(x)"), ["-/x", "x/-"], id="value shown at the end"),
        pytest.param(
            ("x = 1", "y = 1", "z = 1", "print(x)"), ["-/x", "-/-", "-/-", "x/-"], id="far ancestor"
        ),
        pytest.param(("(a, (b,)) = (1, (2,))", "print(a, b)"), ["-/a,b", "a,b/-"], id="nested targets"),
        pytest.param(("if (n := 1) > 0: ...", "print(n)"), ["-/n", "n/-"], id="walrus"),
        pytest.param(("x: int", "x: int = 2\nprint(x)"), ["-/-", "-/-"], id="bare annotation"),
        pytest.param(("x = 1", "[x for x in range(3)]", "print(x)"), ["-/x", "-/-", "x/-"], id="inner name"),
        pytest.param(("x = 1", "import numpy as x", "print(x)"), ["-/-", "-/-", "-/-"], id="import hides"),
        pytest.param(
            ("x = 1", "for x in []: ...", "print(x)"), ["-/x", "x/x", "x/-"], id="loop that may not run"
        ),
    ],
)
def test_names_cross(sources: tuple[str, ...], expected: list[str]) -> None:
    result = chain(*sources)
    assert flow(result) == expected


def test_a_function_of_the_prelude_brings_its_parameter_to_its_callers_only() -> None:
    steps = chain("f()", "x = 1", functions="def f():\n    return K", parameters="K = 3").checked().steps
    assert [s.parameters for s in steps] == [("K",), ()]


def test_a_diamond_reads_each_name_from_where_it_is_made() -> None:
    result = compiled(
        A, ("step:b prev:a", "l = x"), ("step:c prev:a", "r = x"), ("step:d prev:b prev:c", "print(l, r)")
    )
    assert edges(result) == [
        "a <-  |  | x | ",
        "b <- a | x | l | ",
        "c <- a | x | r | ",
        "d <- b, c | l, r |  | ",
    ]


def test_two_distributed_steps() -> None:
    tags = "distribute:MultiWorkerMirroredStrategy numWorkers:2"
    pipeline = compiled((f"block:one {tags}", "x = 1"), (f"block:two prev:one {tags}", "y = x")).checked()
    assert [s.distribution.workers for s in pipeline.steps if s.distribution] == [2, 2]
    assert pipeline.step("two").previous == ("one",)


def volume(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mount_point": f"/{name}", "type": "pvc", **more}


def test_volumes_as_variables() -> None:
    given = [volume("raw-data", expose_as_env_var=True), volume("my.pvc", expose_as_env_var=True)]
    pipeline = compiled(A, volumes=given[:1]).checked()
    assert [v.env for v in pipeline.settings.volumes] == ["KALE_VOLUME_RAW_DATA"]
    twice = [
        volume("a-b", expose_as_env_var=True),
        {**volume("a-b", expose_as_env_var=True), "mount_point": "/c"},
    ]
    assert "NB003" in codes(A, volumes=twice)


@pytest.mark.parametrize("kind", ["pv", "clone", "snap", "unknown"])
def test_other_types_of_volumes_are_refused(kind: str) -> None:
    assert codes(A, volumes=[volume("v", type=kind)]) == ["NB003"]


def linked(*cells: Cell) -> bytes:
    """Return a notebook whose `notebook:NAME` cells refer to NAME.ipynb."""
    raw = json.loads(content(*cells))
    for cell in raw["cells"]:
        for tag in cell["metadata"].get("tags", ()):
            if tag.startswith("notebook:"):
                cell["metadata"]["notebook_path"] = f"{tag.partition(':')[2]}.ipynb"
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("root", "others", "finding"),
    [
        (
            [("notebook:one", ""), ("step:a", "x = 1")],
            {},
            "NB115 notebook:one: one.ipynb cannot be read",
        ),
        (
            [("notebook:one", ""), ("", "y = 1")],
            {"one": [A]},
            "NB115 untagged code after a notebook: cell belongs to the next step, and none follows",
        ),
        (
            [("notebook:one", "")],
            {"one": [("notebook:two", ""), A], "two": [A]},
            "NB115 notebook:one: one.ipynb itself stands for other notebooks",
        ),
        (
            [("notebook:one", ""), ("notebook:two", ""), ("step:a", "print(x)")],
            {"one": [("step:s", "x = 1")], "two": [("step:s", "x = 2")]},
            "NB203 x is set by one_s and by two_s, which may run at the same time",
        ),
        (
            [("notebook:one", ""), ("notebook:two", "")],
            {"one": [("step:s", "x = y")], "two": [("step:s", "y = x")]},
            "NB105 steps wait for one another: two_s → one_s → two_s",
        ),
    ],
    ids=["no file", "code that belongs to no step", "nested", "two producers", "cycle"],
)
def test_wrong_notebooks_of_notebooks(root: list[Cell], others: dict[str, list[Cell]], finding: str) -> None:
    children = {f"{name}.ipynb": read(linked(*cells), name) for name, cells in others.items()}
    made = compile_notebook(read(linked(*root), "root"), children)
    assert finding in [f"{d.code} {d.message}" for d in made.diagnostics]
    assert made.pipeline is None


def test_a_notebook_runs_beside_one_that_it_shares_no_data_with() -> None:
    children = {f"{name}.ipynb": read(content(("step:s", source)), name) for name, source in CHILDREN.items()}
    root = linked(("notebook:one", "# only words"), ("notebook:two", ""), ("step:a", "print(x)"))
    made = compile_notebook(read(root, "root"), children)
    assert edges(made) == ["one_s <-  |  | x | ", "two_s <-  |  |  | ", "a <- one_s, two_s | x |  | "]


CHILDREN = {"one": "x = 1", "two": "y = 2"}
