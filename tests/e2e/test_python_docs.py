"""The Python of the docs does what it says: every block is run, in order, as a notebook runs its cells.

That is within a running event loop, with `await` at the top level. Blocks with a file name are files: manifests beside
the notebook, or tests that pytest runs with the plugin.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster
from tests.tutorial import Block, blocks

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = DOCS / "how-to/python-and-notebooks.md"
PAGES = [HOW_TO, DOCS / "reference/python.md"]


def python(page: Path) -> list[Block]:
    """Return the blocks of code that are no files."""
    found = blocks(page.read_text())
    return [block for block in found if block.language == "python" and "file" not in block.options]


def files(page: Path) -> dict[str, str]:
    """Return the blocks that are files, by name."""
    return {b.options["file"]: b.text for b in blocks(page.read_text()) if "file" in b.options}


async def run_cells(page: Path, names: dict[str, Any]) -> None:
    """Run the blocks one after the other; a last expression is shown, as a notebook does."""
    for block in python(page):
        tree = ast.parse(block.text)
        *_, last = tree.body
        if isinstance(last, ast.Expr) and not isinstance(last.value, (ast.Call, ast.Await)):
            tree.body[-1:] = ast.parse(f"shown = ({ast.unparse(last.value)})._repr_html_()").body
        code = compile(tree, f"{page.name}:{block.line}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)
        if inspect.iscoroutine(result):
            await result


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_the_docs(
    page: Path,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "job.yaml").write_text(files(HOW_TO)["job.yaml"])
    shutil.copy(DOCS.parent / "examples/notebooks/candies.ipynb", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINSHED_HOME", str(cluster.home))
    names: dict[str, Any] = {}
    asyncio.run(run_cells(page, names))
    assert python(page)
    said = capsys.readouterr().out
    assert "[master-0] accuracy=0.91" in said
    if page == HOW_TO:
        assert "Succeeded" in names["shown"] and "master-0" in names["shown"]
        assert "worker-0 failed first: Error, exit code 7" in said
    else:
        assert "worker-0" not in said and "master-0 7 no data" in said
        assert 'no job "nosuch"' in said
        assert "sack The sack holds 30 candies." in said
        cluster.kubectl("delete", "pipelinerun", "candies-sharing", "-n", "default").ok()
    for job in cluster.get("pytorchjobs", namespace="default"):
        cluster.kubectl("delete", "pytorchjob", job["metadata"]["name"], "-n", "default").ok()


@pytest.mark.timeout(200)
def test_tests_of_the_docs(tmp_path: Path) -> None:
    """As in a project of its own: a cluster of its own, found through the plugin."""
    tests = {name: text for name, text in files(HOW_TO).items() if name.startswith("test_")}
    for name, text in tests.items():
        (tmp_path / name).write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "trainshed.testing.plugin",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(tests)} passed" in done.stdout
