"""What a start has a child do: the outcome comes back, and nothing of it stays."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainshed.cluster.control.apart import apart
from trainshed.cluster.control.errors import CannotStart
from trainshed.cluster.paths import StateError


def run_apart(work: Callable[[], object]) -> None:
    with apart(work) as wait:
        wait()


def test_what_a_child_does_is_done_when_it_returns(tmp_path: Path) -> None:
    run_apart(lambda: (tmp_path / "made").write_text(str(os.getpid())))
    assert int((tmp_path / "made").read_text()) != os.getpid()


def test_what_a_child_raises_is_raised_with_all_that_it_says() -> None:
    def fail() -> None:
        raise StateError("no certificate", "delete it")

    with pytest.raises(StateError, match="no certificate") as raised:
        run_apart(fail)
    assert (raised.value.message, raised.value.hint) == ("no certificate", "delete it")
    assert "in fail" in raised.value.__notes__[0], "where it happened"


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", tmp_path / "key")

    with pytest.raises(OSError, match="No space left on device") as raised:
        run_apart(fail)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "key"))


def test_a_system_call_that_is_refused_is_raised_as_what_it_is() -> None:
    with pytest.raises(FileNotFoundError, match="/no/such/file"):
        run_apart(lambda: os.open("/no/such/file", os.O_RDONLY))


def test_an_advice_of_how_to_start_is_kept() -> None:
    def fail() -> None:
        raise CannotStart("no user namespaces", "allow them")

    with pytest.raises(CannotStart, match="no user namespaces") as raised:
        run_apart(fail)
    assert raised.value.hint == "allow them"


def test_of_any_other_the_text_and_the_place_are_told() -> None:
    def fail() -> None:
        raise ValueError("a defect")

    with pytest.raises(RuntimeError, match="ValueError: a defect") as raised:
        run_apart(fail)
    assert "in fail" in raised.value.__notes__[0]


def test_the_end_of_the_block_waits_and_tells_what_failed_first(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def fail() -> None:
        raise StateError("no certificate", "delete it")

    with pytest.raises(StateError, match="no certificate"), apart(fail):
        raise ValueError("of the block")
    with pytest.raises(ValueError, match="of the block"), apart(lambda: made.write_text(str(os.getpid()))):
        raise ValueError("of the block")
    with pytest.raises(ChildProcessError):
        os.waitpid(int(made.read_text()), os.WNOHANG)


def test_a_child_that_is_killed_is_no_success() -> None:
    with pytest.raises(RuntimeError, match="ended with -9"):
        run_apart(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_making_certificates_apart_leaves_no_library_behind(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from trainshed.cluster.control.apart import apart\n"
        "from trainshed.cluster.pki import Pki, ensure_pki\n"
        f"pki = Pki(Path({str(tmp_path)!r}) / 'pki')\n"
        "with apart(lambda: ensure_pki(pki.directory)) as wait: wait()\n"
        "assert pki.server_certificate.exists() and pki.admin_token\n"
        "print([m for m in sys.modules if m.startswith('cryptography')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
