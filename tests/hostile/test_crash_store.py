"""The short form of the store's crashes; `python -m tests.hostile.crash_store` is the long one.

In a process of its own: the children are forks, which must not take the threads of other tests for theirs.
"""

from __future__ import annotations

import subprocess
import sys

CRASHES = 100


def test_no_crash_breaks_a_guarantee_of_the_store() -> None:
    command = [sys.executable, "-m", "tests.hostile.crash_store", str(CRASHES), "--seed", "20261122"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "100 crashes" in done.stdout and "0 violations" in done.stdout
    print(done.stdout)
