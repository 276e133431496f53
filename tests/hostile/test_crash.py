"""The short form of the crash harness; `python -m tests.hostile.crash` is the long one."""

from __future__ import annotations

from tests.hostile.crash import crash

POINTS = 40


def test_no_kill_breaks_a_promise() -> None:
    line = crash(POINTS, seed=20_261_122)
    assert "0 violations" in line
    print(line)
