"""`trainshed notebook`: what is printed where, and with which exit code."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.notebook_builder import Cell, content
from trainshed.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples/notebooks"
SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["notebook", *map(str, arguments)], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def made(folder: Path, *cells: Cell) -> Path:
    file = folder / "made.ipynb"
    file.write_bytes(content(*cells))
    return file


def test_several_notebooks_are_checked_at_once(tmp_path: Path) -> None:
    wrong = made(tmp_path, ("step:a", "x = 1"), ("step:b", "print(x)"))
    whole = [*sorted(EXAMPLES.glob("*.ipynb")), wrong, tmp_path / "none.ipynb"]
    code, stdout, stderr = run("check", *whole)
    assert code == 1
    assert [line.split()[1] for line in stdout.splitlines() if line.startswith("✓")] == [
        f"{file}:" for file in whole[:-2]
    ]
    assert f"{wrong}, cell 2, line 1, step b: error NB201" in stdout
    assert stderr == f"error: cannot read {tmp_path}/none.ipynb: No such file or directory\n"
    code, stdout, _ = run("check", *whole[:-1], "-o", "json")
    assert code == 1
    assert [(d["code"], d["file"]) for d in json.loads(stdout)] == [("NB201", str(wrong))]
    assert run("check", *whole[:2])[0] == 0


SUMS = """from trainshed.pipelines import pipeline, step

@step
def load(count):
    return list(range(count))

@step
def total(rows):
    return sum(rows)

@pipeline
def sums(count: int = 3):
    total(load(count))
"""


def test_functions_are_compiled_checked_drawn_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SUMS)
    assert run("check", file) == (0, f"✓ {file}: 2 steps\n", "")
    code, stdout, stderr = run("compile", file, "--param", "count=7")
    assert (code, stderr) == (0, "")
    (found,) = yaml.safe_load_all(stdout)
    assert found["spec"]["params"] == [{"name": "count", "value": "7"}]
    assert run("compile", file)[1] == run("compile", f"{file}:sums")[1]
    assert run("graph", file)[1].split() == ["load", "total", "after", "load", "rows", "from", "load"]
    assert "def total(rows):" in run("show", file, "total")[1]
    code, stdout, stderr = run("run", file, "--param", "count=many")
    assert (code, stderr) == (1, "error: parameter count: must be int, not 'many'\n")
    file.write_text(SUMS.replace("total(load(count))", "total(load())"))
    code, stdout, stderr = run("compile", file)
    assert (code, stdout) == (1, "")
    assert f"{file}, line 13: error NB602: step load: missing a required argument: 'count'" in stderr


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.ipynb")))
def test_examples_have_no_findings(name: str) -> None:
    code, stdout, stderr = run("check", EXAMPLES / name)
    assert (code, stderr) == (0, "")
    assert len(stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("target", "api"),
    [("tekton", "tekton.dev/v1"), ("tekton-v1beta1", "tekton.dev/v1beta1"), ("local", "tekton.dev/v1")],
)
def test_compile_writes_a_run(target: str, api: str) -> None:
    code, stdout, stderr = run("compile", EXAMPLES / "candies.ipynb", "--to", target, "--param", "CANDIES=7")
    assert (code, stderr) == (0, "")
    (found,) = yaml.safe_load_all(stdout)
    assert (found["apiVersion"], found["kind"]) == (api, "PipelineRun")
    assert found["spec"]["params"] == [{"name": "CANDIES", "value": "7"}]


def test_errors_stop_the_compilation_and_warnings_do_not(tmp_path: Path) -> None:
    wrong = made(tmp_path, ("step:a", "x = 1"), ("step:b", "print(x)"))
    code, stdout, stderr = run("compile", wrong)
    assert (code, stdout) == (1, "")
    assert f"{wrong}, cell 2, line 1, step b: error NB201: x is defined in step a" in stderr
    assert "add prev:a" in stderr
    doubtful = made(tmp_path, ("step:a", "print(y)"))
    code, stdout, stderr = run("compile", doubtful)
    assert code == 0
    assert "warning NB202" in stderr
    assert yaml.safe_load(stdout)["kind"] == "PipelineRun"


def test_findings_as_json(tmp_path: Path) -> None:
    code, stdout, _ = run("check", made(tmp_path, ("step:a nonsense", "x = 1")), "-o", "json")
    assert code == 1
    (found,) = json.loads(stdout)
    assert found.pop("fix").startswith("tags are skip, imports,")
    assert found == {
        "code": "NB101",
        "severity": "error",
        "message": "unrecognized tag: nonsense",
        "cell": 1,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[1]", "not a Jupyter notebook"),
        ("{}", "it has no `nbformat`"),
    ],
)
@pytest.mark.parametrize("command", ["check", "compile", "graph"])
def test_what_is_no_notebook(command: str, text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.ipynb"
    file.write_text(text)
    code, stdout, stderr = run(command, file)
    assert code == 1
    assert words in stdout + stderr


CYCLE = [("step:a prev:b", "x = 1"), ("step:b prev:a", "y = 1")]


@pytest.mark.parametrize("command", ["check", "compile", "run"])
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (CYCLE, "error NB105: steps wait for one another"),
        ([("step:a", "x = 1"), ("step:b prev:b", "y = 1")], "error NB105: step b waits for itself"),
        ([("step:a nonsense:1", "x = 1")], "error NB101: unrecognized tag: nonsense:1"),
        ([("step:a", "x = 1"), ("step:_a", "y = 1")], "error NB106"),
        ([("step:" + "a" * 60, "x = 1")], "error NB107"),
        ([("step:a", "x = = 1")], "error NB301: invalid syntax"),
        ([("step:a", "x = 1"), ("step:b", "print(x)")], "error NB201: x is defined in step a"),
    ],
)
def test_bad_input_is_a_finding_with_a_place(
    command: str, cells: list[Cell], words: str, tmp_path: Path
) -> None:
    """Exit code 1, the cell, no stack trace, and no cluster is asked."""
    file = tmp_path / "wrong.ipynb"
    file.write_bytes(content(*cells))
    code, stdout, stderr = run(command, file, *(["--kubeconfig", "/nowhere"] if command == "run" else []))
    assert code == 1
    said = stdout + stderr
    assert words in " ".join(said.split())
    assert "cell" in said
    assert "Traceback" not in said


def test_a_program_that_fits_into_no_object_is_found_before_the_run(tmp_path: Path) -> None:
    file = made(
        tmp_path, ("markdown", "# title"), ("imports", "import os"), ("step:a", f"x = {'a' * 250_000!r}")
    )
    for command in ("check", "compile", "run"):
        code, stdout, stderr = run(command, file)
        assert code == 1
        assert f"{file}, cell 3, step a: error NB304: the program of step a has 244 KiB" in stdout + stderr
        assert "✓" not in stdout


def test_three_hundred_cells_are_checked(tmp_path: Path) -> None:
    cells: list[Cell] = [("step:s0", "x0 = 0")]
    cells += [(f"step:s{i} prev:s{i - 1}", f"x{i} = x{i - 1} + 1") for i in range(1, 300)]
    file = tmp_path / "long.ipynb"
    file.write_bytes(content(*cells))
    code, stdout, _ = run("check", file)
    assert (code, "300 steps" in stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nowhere.ipynb"), "cannot read nowhere.ipynb: No such file or directory"),
        (("check", "/"), "/ is a directory"),
        (
            ("compile", EXAMPLES / "candies.ipynb", "--output", "/nowhere/x"),
            "cannot write /nowhere/x: No such file",
        ),
        (
            ("graph", EXAMPLES / "candies.ipynb", "--svg", "/nowhere/x"),
            "cannot write /nowhere/x: No such file",
        ),
        (("show", EXAMPLES / "candies.ipynb", "kid4"), "did you mean kid"),
        (("compile", EXAMPLES / "candies.ipynb", "--param", "CANDY=1"), "did you mean CANDIES?"),
        (("compile", EXAMPLES / "candies.ipynb", "--param", "CANDIES"), "write NAME=VALUE"),
        (
            ("compile", EXAMPLES / "candies.ipynb", "--param", "CANDIES=all"),
            "CANDIES: must be int, not 'all'",
        ),
        (("run", EXAMPLES / "candies.ipynb", "--param", "CANDIES=all"), "CANDIES: must be int, not 'all'"),
    ],
)
def test_wrong_arguments(arguments: tuple[str | Path, ...], words: str) -> None:
    code, stdout, stderr = run(*arguments)
    assert (code, stdout) == (1, "")
    assert words in stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("notebook show NOTEBOOK kid", ["kid1", "kid2", "kid3"]),
        ("notebook run NOTEBOOK --from s", ["sack"]),
        ("notebook run NOTEBOOK --debug --step kid2", ["kid2"]),
        ("notebook run NOTEBOOK --param CAN", ["CANDIES="]),
        ("notebook compile NOTEBOOK -p CAN", ["CANDIES="]),
        ("notebook show nowhere.ipynb kid", []),
    ],
)
def test_steps_and_parameters_are_offered_to_the_shell(words: str, offered: list[str]) -> None:
    line = f"trainshed {words.replace('NOTEBOOK', str(EXAMPLES / 'candies.ipynb'))}"
    given = {
        "_TRAINSHED_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = CliRunner().invoke(app, env=given, prog_name="trainshed")
    assert done.stdout.split() == offered


def test_graph_in_the_terminal() -> None:
    code, stdout, _ = run("graph", EXAMPLES / "candies.ipynb")
    assert code == 0
    assert stdout.splitlines() == [
        "sack",
        "  kid1      after sack",
        "    kid2    after kid1        kid1 from kid1",
        "      kid3  after kid1, kid2  kid1 from kid1, kid2 from kid2",
    ]


def test_graph_as_svg(tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    assert run("graph", EXAMPLES / "titanic.ipynb", "--svg", file)[0] == 0
    root = ElementTree.fromstring(file.read_text())
    boxes = root.findall(f"{SVG}rect")
    assert len(boxes) == 9
    places = {(b.get("x"), b.get("y")) for b in boxes}
    assert len(places) == 9
    arrows = root.findall(f"{SVG}path")
    assert len(arrows) == 13  # twelve `prev:` and what crosses a step that does not read it
    (back,) = [arrow for arrow in arrows if arrow.get("stroke-dasharray")]
    assert "PREDICTION_LABEL" in [text.text for text in root.findall(f"{SVG}text")]
    over = next(b for b in boxes if float(b.get("x", "")) > float(boxes[0].get("x", "")))
    below = float(over.get("y", "")) + float(over.get("height", ""))
    passes = re.search(r" (\d+) H", back.get("d", ""))
    assert passes is not None
    assert float(passes[1]) > below


def test_show_prints_the_program() -> None:
    code, stdout, _ = run("show", EXAMPLES / "candies.ipynb", "kid2")
    assert code == 0
    headings = [line for line in stdout.splitlines() if line.startswith("# %%")]
    assert headings == [
        "# %% parameters",
        "# %% cell 2 (imports)",
        "# %% cell 3 (functions)",
        "# %% load",
        "# %% cell 7",
        "# %% save",
    ]


def test_other_notebooks_are_found_beside_this_one(tmp_path: Path) -> None:
    folder = EXAMPLES.parents[1] / "tests/notebooks"
    assert run("check", folder / "composed.ipynb")[0] == 0
    lonely = shutil.copy(folder / "composed.ipynb", tmp_path)
    code, stdout, _ = run("check", lonely)
    assert code == 1
    assert "NB115: notebook:numbers: numbers.ipynb cannot be read" in stdout


def test_no_command_changes_the_notebook(tmp_path: Path) -> None:
    """Tags that nobody knows and their order stay, as does a cell without any."""
    file = made(tmp_path, ("theirs step:a another", "x = 1"), ("", "y = 2"))
    before = file.read_bytes()
    for arguments in (["check"], ["compile"], ["graph"], ["show", "a"]):
        run(arguments[0], file, *arguments[1:])
        assert file.read_bytes() == before
