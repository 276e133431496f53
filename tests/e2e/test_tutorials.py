"""The tutorials, executed as a reader would, with an old and a new kubectl in turn: what the docs promise happens.

That kubectls behave alike is compared command by command, in the tests of kubectl.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path
from tests.e2e.tutorial import Tutorial, environment_for

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ("storage-and-job", "torchrun-elastic", "code-from-git", "sdk-from-a-notebook")
FRAMEWORKS = (
    "tensorflow",
    "mpi",
    "xgboost",
    "jax",
    pytest.param("paddle", marks=pytest.mark.paddle),
    "mxnet",
)
"""Each trains for real, with what the extra of its name installs."""
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
    "name, which",
    [(name, -(number % 2)) for number, name in enumerate(TUTORIALS)],
    ids=lambda value: value if isinstance(value, str) else "oldest" if value == 0 else "newest",
)
def test_a_reader_gets_what_the_tutorial_shows(
    name: str, which: int, session_cluster: Cluster, reader: Path
) -> None:
    transcript = follow(name, which, session_cluster, reader)
    accuracies = [float(value) for value in re.findall(r"^accuracy=(\S+)", transcript, re.M)]
    assert all(value >= EXPECTED_ACCURACY for value in accuracies), accuracies
    assert accuracies or name == "sdk-from-a-notebook"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_trains_as_its_tutorial_shows(name: str, session_cluster: Cluster, reader: Path) -> None:
    follow(name, -1, session_cluster, reader)


def follow(name: str, which: int, cluster: Cluster, reader: Path) -> str:
    """Do what the tutorial says with one kubectl, and return all that was printed."""
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
    return "".join(tutorial.transcript)
