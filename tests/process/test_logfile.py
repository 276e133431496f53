"""Logs of the cluster's own processes: moved aside when they are long, without losing a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trainshed.cluster.sandbox import logfile

WRITER = """
import os, sys
from trainshed.cluster.sandbox import logfile
for number in range(50):
    os.write(1 + number % 2, b"%04d %s\\n" % (number, b"x" * 94))
    logfile.rotate((1, 2), limit=500)
"""


def test_lines_go_on_in_a_new_file(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("ab") as output:
        subprocess.run([sys.executable, "-c", WRITER], stdout=output, stderr=output, check=True, timeout=30)
    kept = [tmp_path / f"a.log.{number}" for number in range(logfile.OLDER, 0, -1)] + [log]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in kept)
    numbers = [int(line[:4]) for path in kept for line in path.read_text().splitlines()]
    assert numbers == list(range(50 - len(numbers), 50))
    assert all(path.stat().st_size <= 500 for path in kept)


def test_what_is_no_file_is_let_alone(tmp_path: Path) -> None:
    code = "from trainshed.cluster.sandbox import logfile; print(logfile.rotate((1, 2), limit=0))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "False\n"
