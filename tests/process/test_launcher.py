"""A control plane that does not come up has ended when the caller is told, and why; one without a disk can be ended."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import processes_with
from trainshed.cluster.control import launcher
from trainshed.cluster.paths import StatePaths
from trainshed.sdk import local
from trainshed.sdk.errors import UserError

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


async def test_a_stop_needs_no_disk(tmp_path: Path) -> None:
    """Where reading fails, the processes of the state directory are known by the kernel, and no others are ended."""
    paths, other = StatePaths(tmp_path / "home").prepare(), tmp_path / "home2"
    rename = (
        "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); sys.stdin.read()"
    )
    of_it = (
        ("python3", local.CONTROL_PLANE, "--home", str(paths.root)),
        ("trainshed-shim", str(paths.pods)),
        ("trainshed-netd", str(paths.run)),
    )
    others = (
        ("python3", local.CONTROL_PLANE, "--home", str(other)),
        ("trainshed-shim", str(other / "pods")),
        ("vi", str(paths.root)),
    )
    started = []
    for words in (*of_it, *others):
        process = subprocess.Popen(
            [sys.executable, "-c", rename, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"\n"
    paths.info.symlink_to("/proc/self/mem")  # page 0 is nowhere: EIO
    with pytest.raises(
        UserError, match=r"Input/output error; nothing .* \(3 processes were killed\)"
    ) as told:
        await local.stop(paths)
    assert told.value.hint.startswith("the disk does not work")
    assert [process.poll() for process in started] == [-9, -9, -9, None, None, None]
    for process in started:
        process.communicate()
