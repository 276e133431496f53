"""A full disk below the state directory, which is a small tmpfs: that takes root."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.sandboxes import Sandboxes
from trainshed.cluster.sandbox.api import Runtime, RuntimePaths

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="only root can mount a small disk"
)


@pytest.fixture
async def small_boxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    """A runtime whose pods are on a disk of 1 MiB."""
    home = tmp_path / "state"
    (home / "pods").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "small", str(home / "pods")]
    subprocess.run(mount, check=True, timeout=10)
    try:
        runtime = Runtime(RuntimePaths.under(home))
        await runtime.start()
        boxes = Sandboxes(runtime, home)
        try:
            yield boxes
        finally:
            await boxes.close()
    finally:
        subprocess.run(["umount", str(home / "pods")], check=True, timeout=10)


async def test_a_start_on_a_full_disk_fails_at_once_and_may_be_made_again(small_boxes: Sandboxes) -> None:
    boxes = small_boxes
    await boxes.pod("one")
    filler = boxes.home / "pods" / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    began = time.monotonic()
    with pytest.raises(OSError) as refused:
        await boxes.start("one", "true")
    assert refused.value.errno == errno.ENOSPC
    assert "No space left" in str(refused.value)
    assert time.monotonic() - began < 5
    filler.unlink()
    await boxes.start("one", "true")
    assert (await boxes.end("one")).exit_code == 0
