"""A control plane that does not come up has ended when the caller is told, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import processes_with
from trainshed.cluster.control import launcher
from trainshed.cluster.paths import StatePaths

ENDS = {
    "killed": (
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "the control plane was ended by SIGKILL while it started",
    ),
    "failed": ("raise OSError('no such thing')", "OSError: no such thing"),
    "silent": ("raise SystemExit(0)", "the control plane ended without a word"),
    "cleans_up": (
        "import os, sys, threading\n"
        "os.write(int(sys.argv[sys.argv.index('--report-fd') + 1]), b'{\"error\": \"a reason\"}\\n')\n"
        "threading.Event().wait(0.5)",
        "a reason",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_who_is_told_of_a_failed_start_finds_nothing_of_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, said = ENDS[case]
    (tmp_path / f"control_plane_that_{case}.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    paths = StatePaths(tmp_path / "home")
    paths.prepare()
    with pytest.raises(launcher.StartFailed, match=re.escape(said)):
        launcher.start(paths, f"control_plane_that_{case}", [], lambda step: None)
    assert processes_with(str(paths.root)) == []
    with launcher.absent(paths) as absent, launcher.absent(paths) as absent_again:
        assert (absent, absent_again) == (True, False), "one at a time is sure of it"
