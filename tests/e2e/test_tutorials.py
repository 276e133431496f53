"""The tutorials, executed as a reader would, with an old and a new kubectl: what the docs promise happens."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path
from tests.e2e.conftest import KUBECTLS
from tests.e2e.tutorial import Tutorial, environment_for

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ("storage-and-job", "torchrun-elastic", "code-from-git", "sdk-from-a-notebook")
EXPECTED_ACCURACY = 0.79
"""The figure of the walk-through after one epoch."""


@pytest.fixture
def reader() -> Iterator[Path]:
    """The home of a reader. Not below /tmp: pods have a /tmp of their own, as containers do."""
    home = Path(tempfile.mkdtemp(prefix=".trainshed-reader-", dir=Path.home()))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "which", [0, -1] if len(KUBECTLS) > 1 else [-1], ids=lambda i: "oldest" if i == 0 else "newest"
)
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_reader_gets_what_the_tutorial_shows(
    name: str, which: int, session_cluster: Cluster, reader: Path
) -> None:
    cluster = session_cluster
    cluster.up()
    cluster.until_operator()
    work = reader / "work"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    environment = environment_for(
        Path(kubectl_path(which)), reader / "bin", reader, cluster.kubeconfig, Path(sys.executable).parent
    )
    environment["TRAINSHED_HOME"] = str(cluster.home)
    tutorial = Tutorial(ROOT / f"docs/tutorials/{name}.md", work, environment)
    try:
        tutorial.run()
    except AssertionError:
        print(cluster.diagnostics())
        raise
    accuracies = [
        float(value) for text in tutorial.transcript for value in re.findall(r"^accuracy=(\S+)", text, re.M)
    ]
    assert all(value >= EXPECTED_ACCURACY for value in accuracies), accuracies
    assert accuracies or name == "sdk-from-a-notebook"
