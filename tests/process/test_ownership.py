"""Handing a tree to a group: whatever is in it, and nothing beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trainshed.cluster.sandbox.ownership import hand_to_group


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_files_and_directories_are_the_groups_and_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "secret").write_text("x")
    (outside / "secret").chmod(0o600)
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("x")
    (tree / "deep" / "file").chmod(0o600)
    (tree / "link").symlink_to(outside)
    (tree / "file-link").symlink_to(outside / "secret")
    gid = os.getgid()
    hand_to_group(str(tree), gid, read_only=False, if_differs=False)
    assert mode(tree / "deep" / "file") == 0o660
    assert mode(tree / "deep") & 0o2770 == 0o2770
    assert mode(tree) & 0o2770 == 0o2770
    assert (mode(outside), mode(outside / "secret")) == (0o700, 0o600)


def test_what_is_read_only_stays_so_and_what_is_handed_already_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    file.chmod(0o400)
    gid = os.getgid()
    hand_to_group(str(tmp_path), gid, read_only=True, if_differs=True)
    assert mode(file) == 0o440
    file.chmod(0o400)
    hand_to_group(str(tmp_path), gid, read_only=True, if_differs=True)
    assert mode(file) == 0o400, "the top says so already (OnRootMismatch)"
    hand_to_group(str(tmp_path), gid, read_only=True, if_differs=False)
    assert mode(file) == 0o440
