"""Shims killed at any moment: no command runs twice, and nothing outlives its pod, whatever it does to itself.

As root and as an ordinary user. A longer run is `python tests/cluster/killed_shims.py HOME PODS`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import killed_shims
from tests.cluster.ordinary_user import python_for_everybody, run_as

PODS = 60
PROGRAM = str(Path(killed_shims.__file__))


def test_killed_shims(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, PROGRAM, str(home), str(PODS)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    _check(done)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other test runs as an ordinary user already")
def test_killed_shims_of_an_ordinary_user(for_everybody: Path) -> None:
    uid = 54322
    home = for_everybody / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    _check(
        run_as(
            uid, python_for_everybody(uid), "-c", Path(PROGRAM).read_text(), str(home), str(PODS), timeout=240
        )
    )


def _check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [count for count in result["starts"] if count > 1] == [], result
    assert result["starts"].count(1) > 0, "every shim was killed before its command ran"
    assert (result["outlived their shim"], result["outlived the cluster"]) == ([], [])
