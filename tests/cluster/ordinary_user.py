"""Running things as an ordinary user of the machine, which takes root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.cluster.sandbox import bootstrap


def run_as(
    uid: int, *command: str, stdin: str = "", timeout: float = 120, home: Path = Path("/")
) -> subprocess.CompletedProcess[str]:
    """Run a command that may import the package and the tests' libraries, as the user `uid`."""
    source = bootstrap.source_directory()
    packages = Path(pytest.__file__).parents[1]
    env = {"PYTHONPATH": f"{source}:{packages}", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    env["HOME"] = str(home)
    return subprocess.run(
        command,
        user=uid,
        group=uid,
        extra_groups=[],
        env=env,
        cwd="/",
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python_for_everybody(uid: int) -> str:
    """Return an interpreter of this version that `uid` may run."""
    wanted = "import sys, msgspec; print(sys.version_info[:2])"
    packages = str(Path(pytest.__file__).parents[1])
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}"):
        try:
            done = subprocess.run(
                [python, "-c", wanted],
                user=uid,
                group=uid,
                extra_groups=[],
                env={"PYTHONPATH": packages},
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if done.stdout.strip() == str(tuple(sys.version_info[:2])):
            return python
    pytest.skip("no Python of this version that another user may run")


def run_tests_as(uid: int, file: str, directory: Path, *, timeout: float = 120) -> str:
    """Run the tests of a file as the user `uid`, but for those that do so; return pytest's last line.

    `directory` is one that the user may enter: the tests get one of theirs in it. Raises AssertionError with what
    pytest printed when one fails or is skipped.
    """
    home = directory / "home"
    home.mkdir(mode=0o700)
    os.chown(home, uid, uid)
    options = ["-q", "-k", "not ordinary_user", "--basetemp", str(home / "pytest")]
    done = run_as(uid, python_for_everybody(uid), "-m", "pytest", *options, file, timeout=timeout, home=home)
    assert done.returncode == 0 and " skipped" not in done.stdout, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]
