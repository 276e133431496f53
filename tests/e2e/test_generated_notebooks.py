"""Generated notebooks, run as pods, say what they say when they run from top to bottom in one process.

Two of them here. `GENERATED_NOTEBOOKS=100 pytest tests/e2e/test_generated_notebooks.py` runs more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, assume, given, settings

from tests.e2e.cluster_fixture import Cluster
from tests.histories.test_pipelines_equivalence import notebooks, says_something, top_to_bottom
from tests.unit.notebook_builder import Cell, content
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.notebook.cells import read

SECONDS = 240.0


@settings(
    max_examples=int(os.environ.get("GENERATED_NOTEBOOKS", "2")),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cells=notebooks())
def test_pods_say_what_the_notebook_says(cells: list[Cell], cluster: Cluster, tmp_path: Path) -> None:
    made = compile_notebook(read(content(*cells), "made"))
    assume(made.pipeline is not None and not says_something(made))
    try:
        expected = top_to_bottom(cells)
    except Exception:
        assume(False)
    file = tmp_path / "made.ipynb"
    file.write_bytes(content(*cells, pipeline_name="made"))
    done = cluster.trainshed("notebook", "run", str(file), "--namespace", cluster.namespace, timeout=SECONDS)
    assert done.rc == 0, (json.dumps(cells), done)
    said: dict[str, list[str]] = {}
    for line in done.out.splitlines():
        step, bracket, text = line.removeprefix("[").partition("] ")
        if bracket and line.startswith("[s"):
            said.setdefault(step, []).append(text)
    assert [line for step in sorted(said, key=lambda s: int(s[1:])) for line in said[step]] == expected, cells
