"""Packages without their `__init__`, modules that run late or not, each in a process of its own: what is imported
once stays."""

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
    head = "import sys\nfrom trainshed._packages import at_first_use, leave_init, without\n"
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


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Return a directory with modules that say so when they run, one of them below a package."""
    (tmp_path / "crate").mkdir()
    (tmp_path / "crate" / "__init__.py").write_text("")
    for name in ("slow", "crate/slow"):
        (tmp_path / f"{name}.py").write_text("print('runs')\nclass Thing: ...\nnumber = 7\n")
    (tmp_path / "user.py").write_text("import slow\nimport slow\n\ndef use(): return slow.number\n")
    (tmp_path / "choosy.py").write_text(
        "try:\n    import slow\nexcept ImportError:\n    slow = None\n\ndef has(): return slow is not None\n"
    )
    return tmp_path


def test_a_module_runs_when_it_is_asked_for_a_name(module: Path) -> None:
    script = "at_first_use('slow')\nimport user, slow\nprint('imported')\nprint(user.use(), user.use())"
    assert _said(module, script).split() == ["imported", "runs", "7", "7"]


@pytest.mark.parametrize(
    "use",
    [
        "import crate.slow\nprint('imported')\nfound = crate.slow.Thing",
        "from crate import slow\nprint('imported')\nfound = slow.Thing",
        "print('imported')\nfrom crate.slow import Thing as found",
    ],
)
def test_a_module_of_a_package_runs_late_too_and_once(module: Path, use: str) -> None:
    script = f"at_first_use('crate.slow')\n{use}\nimport crate.slow as same\nprint(same.Thing is found)"
    assert _said(module, script).split() == ["imported", "runs", "True"]


def test_two_threads_may_ask_at_once(module: Path) -> None:
    (module / "slow.py").write_text("import time\ntime.sleep(0.2)\nnumber = 7\n")
    script = (
        "at_first_use('slow')\nimport slow\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print(*pool.map(lambda _: slow.number, range(8)))"
    )
    assert _said(module, script).split() == ["7"] * 8


def test_a_name_that_a_module_does_not_have_is_told(module: Path) -> None:
    script = (
        "at_first_use('slow')\nimport slow\ntry:\n    slow.nothing\nexcept AttributeError as e:\n    print(e)"
    )
    assert _said(module, script).splitlines() == ["runs", "module 'slow' has no attribute 'nothing'"]


def test_a_module_that_has_run_or_is_not_there_stays_as_it_is(module: Path) -> None:
    script = (
        "import slow\nat_first_use('slow', 'no_such_module')\n"
        "print(type(slow).__name__, 'no_such_module' in sys.modules)"
    )
    assert _said(module, script).split() == ["runs", "module", "False"]


def test_without_a_module_others_make_do(module: Path) -> None:
    script = (
        "with without('slow'):\n    import choosy\nprint(choosy.has(), 'slow' in sys.modules)\n"
        "import slow\nwith without('slow'):\n    import slow as same\nprint(same is slow)"
    )
    assert _said(module, script).split() == ["False", "False", "runs", "True"]
