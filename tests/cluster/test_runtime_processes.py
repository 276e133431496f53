"""A pod that makes processes without end leaves enough of them to the cluster: that takes an ordinary user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import fork_bomb
from tests.cluster.ordinary_user import python_for_everybody, run_as

LIMIT = 240


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become a user who has no other processes")
def test_the_cluster_goes_on_beside_a_fork_bomb(for_everybody: Path) -> None:
    uid = 54388
    home = for_everybody / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    program = Path(fork_bomb.__file__).read_text()
    done = run_as(uid, python_for_everybody(uid), "-c", program, str(home), str(LIMIT), timeout=200)
    assert (done.returncode, done.stdout) == (0, "the other pod ran, and the first was stopped\n"), (
        done.stderr
    )
