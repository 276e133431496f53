"""The state directory: where it is, and that nobody else may look into it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.paths import StateError, StatePaths, write_private


def test_the_environment_decides() -> None:
    assert StatePaths.default({"TRAINSHED_HOME": "/x"}).root == Path("/x")
    assert StatePaths.default({}).root == Path("~/.local/state/trainshed").expanduser()
    assert StatePaths.default({"TRAINSHED_HOME": "rel"}).root.is_absolute()


def test_directories_are_private(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path / "deep" / "state").prepare()
    for directory in (paths.root, paths.pki, paths.run, paths.pods, paths.volumes, paths.images, paths.log):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert paths.prepare() == paths


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o755)
    with pytest.raises(StateError) as error:
        StatePaths(root).prepare()
    assert error.value.hint == f"run: chmod 700 {root}"


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "theirs"
    root.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(StateError, match="belongs to user"):
        StatePaths(root).prepare()


def test_a_file_in_the_way_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateError) as error:
            StatePaths(root).prepare()
        assert "TRAINSHED_HOME" in error.value.hint


def test_private_files_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    write_private(path, b"one")
    assert path.stat().st_mode & 0o777 == 0o600

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(path, b"two")
    assert path.read_bytes() == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers whose engine chooses a number that no file knows."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(os, "geteuid", lambda: 54399)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(StateError, match="no home directory") as told:
        StatePaths.default({})
    assert "TRAINSHED_HOME" in told.value.hint
    assert StatePaths.default({"TRAINSHED_HOME": "/x"}).root == Path("/x")
    assert local_capabilities() == Capabilities(user_mapping=False), "nor does that take a name"


def test_a_path_that_is_too_long_is_told_before_anything_is_made(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["d" * 100] * 4)
    with pytest.raises(StateError, match="is too long"):
        StatePaths(root).prepare()
    assert list(tmp_path.iterdir()) == []
