"""Which tests get a second attempt, and what the run says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests.second_attempt

ONCE = """
import pathlib
def test_{name}():
    seen = pathlib.Path(__file__).with_suffix(".{name}")
    there = seen.exists()
    seen.touch()
    assert there, "the first time"
"""
NEVER = "def test_never():\n    assert False\n"
HANGS = "import pytest, threading\n@pytest.mark.timeout(1)\ndef test_hangs():\n    threading.Event().wait()\n"


def run(folder: Path, where: str, source: str) -> tuple[int, str]:
    """Run the test file `source` below tests/`where` of a tree that has the plugin; exit code and output."""
    (folder / "tests" / where).mkdir(parents=True)
    (folder / "tests/__init__.py").touch()
    (folder / "tests/second_attempt.py").write_text(Path(tests.second_attempt.__file__).read_text())
    (folder / "tests/conftest.py").write_text('pytest_plugins = ["tests.second_attempt"]\n')
    (folder / "tests" / where / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-c", "/dev/null", "tests"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "where, source, code, words",
    [
        ("e2e", ONCE.format(name="a"), 0, "test_a passed only at its second attempt"),
        ("process", ONCE.format(name="a"), 0, "AssertionError: the first time"),
        ("e2e", NEVER, 1, "1 failed"),
        ("e2e", "".join(ONCE.format(name=name) for name in "abc"), 1, "1 failed, 2 passed"),
        ("e2e", HANGS, 1, "1 failed"),
        ("hostile", ONCE.format(name="a"), 1, "1 failed"),
        ("unit", ONCE.format(name="a"), 1, "1 failed"),
    ],
    ids=["once", "told", "never", "too many", "hung", "hostile", "unit"],
)
def test_second_attempts(tmp_path: Path, where: str, source: str, code: int, words: str) -> None:
    got, said = run(tmp_path, where, source)
    assert got == code, said
    assert words in said
