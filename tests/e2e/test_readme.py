"""The README as a newcomer types it: a fresh shell, no `trainshed` on the PATH, line by line as printed.

Only the training is smaller: fewer images. `./check` is left out, for it is what runs this test.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.test_tutorials import ROOT, reader
from tests.e2e.tutorial import Tutorial

__all__ = ["reader"]


@pytest.fixture
def checkout(reader: Path) -> Iterator[Path]:
    """A clone of the project whose `.venv` is installed already."""
    clone = reader / "trainshed"
    shutil.copytree(ROOT / "examples", clone / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    standin = clone / "examples/fashion-mnist/src/fashion_mnist/standin.py"
    full = standin.read_text()
    standin.write_text(full.replace("60_000", "6_000").replace("10_000", "1_000"))
    assert standin.read_text() != full
    manifest = clone / "examples/fashion-mnist/pytorchjob.yaml"
    text = manifest.read_text()
    option = "                - --epochs=1\n"
    assert text.count(option) == 1  # an anchor: the workers have it too
    manifest.write_text(text.replace(option, option + option.replace("epochs=1", "no-download")))
    for name in ("demo", "scripts", "pyproject.toml"):
        (clone / name).symlink_to(ROOT / name)
    (clone / "demo").unlink()
    shutil.copy(ROOT / "demo", clone / "demo")  # it goes to the directory that it is in
    (clone / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (clone / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    (clone / ".venv/.installed").write_text(f"{sys.version} torch {digest}\n")
    yield clone


@pytest.mark.timeout(300)
def test_a_newcomer_gets_what_the_readme_shows(make_cluster: Callable[..., Cluster], checkout: Path) -> None:
    cluster = make_cluster()
    tools = checkout.parent / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(cluster.kubectl_path)
    own = str(Path(sys.executable).parent)
    path = [part for part in os.environ["PATH"].split(os.pathsep) if part != own]
    environment = {
        "PATH": os.pathsep.join([str(tools), *path]),
        "HOME": str(checkout.parent),
        "LANG": "C.UTF-8",
        "TRAINSHED_HOME": str(cluster.home),
    }
    assert subprocess.run(["bash", "-c", "command -v trainshed"], env=environment).returncode != 0
    readme = Tutorial(ROOT / "README.md", checkout, environment, left_out="./check")
    try:
        readme.run()
    except AssertionError:
        print(cluster.diagnostics())
        raise
    demo = readme.transcript[0]
    assert "PyTorchJob fashion-mnist succeeded in" in demo
    assert re.search(r"the cluster goes on running: \d+ MiB in \d processes\. What to type next:\n", demo), (
        demo
    )
    assert "    source .venv/bin/activate " in demo
