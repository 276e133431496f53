"""Packages without their `__init__`, each in a process of its own: what is imported once stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a directory with a package whose `__init__` loads a part that few need."""
    (tmp_path / "parcel").mkdir()
    for name, text in {
        "__init__": "from parcel.config import Config\nfrom parcel.command import run\nversion = 1\n",
        "config": "from . import base\nclass Config: ...\n",
        "base": "",
        "server": "from parcel import Config\n",
        "command": "def run(): return 'ran'\n",
    }.items():
        (tmp_path / "parcel" / f"{name}.py").write_text(text)
    return tmp_path


def _said(path: Path, script: str) -> str:
    head = "import sys\nfrom trainshed._packages import leave_init\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{head}sys.path.insert(0, {str(path)!r})\n{script}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_its_modules_do_without(package: Path) -> None:
    script = (
        "leave_init('parcel', {'Config': 'config'})\n"
        "from parcel.server import Config\n"
        "from parcel.config import Config as same\n"
        "print(Config is same, 'parcel.command' in sys.modules)"
    )
    assert _said(package, script) == "True False"


@pytest.mark.parametrize(
    "use",
    [
        "import parcel\nprint(parcel.run(), parcel.version)",
        "from parcel import run, version\nprint(run(), version)",
        "from parcel import *\nprint(run(), version)",
    ],
)
def test_any_other_name_runs_it(package: Path, use: str) -> None:
    assert _said(package, f"leave_init('parcel')\nimport parcel.config\n{use}") == "ran 1"


def test_a_name_that_it_does_not_have_is_told(package: Path) -> None:
    script = "leave_init('parcel')\ntry:\n    from parcel import nothing\nexcept ImportError as e:\n    print(e.name)"
    assert _said(package, script) == "parcel"


def test_what_is_imported_already_and_what_is_not_there_stay_as_they_are(package: Path) -> None:
    script = (
        "import parcel\nleave_init('parcel')\nprint(parcel.version)\n"
        "leave_init('no_such_parcel')\nprint('no_such_parcel' in sys.modules)"
    )
    assert _said(package, script).split() == ["1", "False"]
