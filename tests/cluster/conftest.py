"""Fixtures of the in-process tests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cluster.api_world import world
from tests.cluster.sandboxes import Sandboxes
from tests.processes import processes_with
from trainshed.cluster.sandbox.api import Runtime, RuntimePaths, RuntimeUnavailable

__all__ = ("world",)


@pytest.fixture
async def boxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    """A runtime in a state directory of its own; afterwards nothing may be left of it."""
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()
    except RuntimeUnavailable as reason:
        pytest.skip(f"no sandboxes here: {reason}; {reason.remedy}")
    sandboxes = Sandboxes(runtime, home)
    try:
        yield sandboxes
    finally:
        await sandboxes.close()
    assert processes_with(str(home)) == []
    assert str(home) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def for_everybody() -> Iterator[Path]:
    """A temporary directory that other users may enter; pytest's own is root's alone."""
    with tempfile.TemporaryDirectory(prefix="trainshed-test-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)
