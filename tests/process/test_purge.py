"""What a purge does to the files of a cluster that is stopped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from trainshed.cluster.paths import StatePaths
from trainshed.cluster.sandbox import files
from trainshed.sdk import local
from trainshed.sdk.errors import UserError

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="only root can mount what cannot be deleted"
)


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    """The state directory of a cluster that was stopped with a pod in it."""
    made = StatePaths(tmp_path / "state").prepare()
    uid = f"uid-{os.getpid()}"
    for directory in (made.pods / uid / "volumes" / "data", made.volumes / "claim" / "deep"):
        directory.mkdir(parents=True)
        (directory / "file").write_text("x")
    return made


async def test_nothing_is_left(paths: StatePaths) -> None:
    await local.purge(paths)
    assert not paths.root.exists()


@needs_root
async def test_what_is_left_is_named_and_all_else_is_gone(paths: StatePaths) -> None:
    mounted = paths.pods / "zz" / "mounted"
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted)], check=True)
    try:
        with pytest.raises(UserError, match=f"{mounted}: Device or resource busy"):
            await local.purge(paths)
        left = [path for path in paths.root.rglob("*") if path.is_file()]
        assert left == []
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
    await local.purge(paths)
    assert not paths.root.exists()


@needs_root
def test_a_tree_is_deleted_around_what_cannot_be(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / "tree" / f"d{number}" / "busy" / "inner").mkdir(parents=True)
        (tmp_path / "tree" / f"d{number}" / "file").touch()
    busy = [tmp_path / "tree" / f"d{number}" / "busy" for number in range(1, 6)]
    for place in busy:
        subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    try:
        with pytest.raises(OSError, match=r"busy: Device or resource busy; .* and 2 more"):
            files.remove_tree(str(tmp_path / "tree"))
        assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["d1", "d2", "d3", "d4", "d5"]
        assert not list((tmp_path / "tree").rglob("file"))
    finally:
        for place in busy:
            subprocess.run(["umount", str(place)], check=True)
    files.remove_tree(str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()
