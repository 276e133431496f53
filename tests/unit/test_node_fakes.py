"""What becomes of pods on fake nodes is kept for later starts, and refused where it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainshed.cluster.node.fake.kept import Fakes, keep_fakes, kept_fakes
from trainshed.cluster.node.fake.lifecycle import RUNS, Stage
from trainshed.cluster.paths import StateError, StatePaths


def test_fake_nodes_are_kept(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path / "state").prepare()
    assert kept_fakes(paths) == (0, (RUNS,))
    keep_fakes(paths, Fakes(5, "- stages: [{phase: Succeeded, after: 2}]"))
    count, (lifecycle,) = kept_fakes(paths)
    assert count == 5 and lifecycle.stages == (Stage(phase="Succeeded", after=2),)
    keep_fakes(paths, Fakes(7))
    assert kept_fakes(paths) == (7, (RUNS,)), "no lifecycles are given again"
    paths.fake_nodes.write_text("{")
    with pytest.raises(StateError, match=r"fake-nodes\.json cannot be read"):
        kept_fakes(paths)


@pytest.mark.parametrize("text", ["- stages: [{fase: Running}]", "- [", "7"])
def test_lifecycles_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(StateError, match="the lifecycles of fake nodes cannot be read: "):
        keep_fakes(StatePaths(tmp_path / "state").prepare(), Fakes(1, text))
