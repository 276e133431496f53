"""The suites as functions: each returns figures, and what was violated."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cluster.ordinary_user import python_for_everybody, run_as
from tests.hostile.attempts import ATTEMPTS, program

USER = 54323
_RUNNER = Path(__file__).with_name("escapes.py")


def escapes(home: Path | None, seconds: float) -> dict[str, str]:
    """Return what each attempt printed, in a cluster at `home`; without one, in a cluster of an ordinary user's.

    `seconds` is how long each race goes on.
    """
    attempts = [{**dataclasses.asdict(each), "program": program(each, "@FACTS@")} for each in ATTEMPTS]
    stdin = json.dumps(attempts)
    if home is not None:
        home.mkdir(mode=0o700)
        command = [sys.executable, str(_RUNNER), str(home), str(seconds)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=240 + 4 * seconds, check=False
        )
    else:
        with tempfile.TemporaryDirectory(prefix="trainshed-hostile-") as directory:
            Path(directory).chmod(0o755)  # what its user cannot list is not in the root of their pods
            users = Path(directory) / "home"
            users.mkdir(mode=0o700)
            os.chown(users, USER, USER)
            command = [
                python_for_everybody(USER),
                "-c",
                _RUNNER.read_text(),
                str(users),
                str(seconds),
                str(USER),
            ]
            done = run_as(0, *command, stdin=stdin, timeout=240 + 4 * seconds)
    if done.returncode != 0:
        raise AssertionError(f"the attempts were not made: {done.stderr}")
    results: dict[str, str] = json.loads(done.stdout)
    return results
