"""Which process a recorded pid is: by its start, and none once it has ended, reaped or not."""

from __future__ import annotations

import os
import subprocess

from trainshed.cluster.control.launcher import start_ticks


def test_a_process_is_there_until_it_has_ended() -> None:
    own = start_ticks(os.getpid())
    assert own is not None and own == start_ticks(os.getpid())
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert start_ticks(child.pid) is None, "it has ended, and nobody has asked how"
    assert start_ticks(child.pid) is None
