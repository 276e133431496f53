"""Ways out of a box that the node agent has a part in; those of a pod alone are in `tests/hostile`.

As root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import run_tests_as
from tests.cluster.sandboxes import Sandboxes, within
from tests.unit.node_builders import make_container
from trainshed.cluster.node.volumes.mounts import container_mounts
from trainshed.cluster.node.volumes.volume import MountError, Volume
from trainshed.cluster.sandbox.api import StartError

EXCHANGER = """
import ctypes, sys
libc = ctypes.CDLL(None)
print("up", flush=True)
while True:
    libc.renameat2(-100, b"sub", -100, b"link", 2)
"""


async def test_a_sub_path_that_is_exchanged_for_a_link_does_not_lead_out(
    boxes: Sandboxes, tmp_path: Path
) -> None:
    """CVE-2021-25741: another pod that shares the volume swaps the directory and a link to / all the time."""
    root = tmp_path / "volume"
    (root / "sub").mkdir(parents=True)
    (root / "link").symlink_to("/")
    declared = make_container(volumeMounts=[{"name": "v", "mountPath": "/data", "subPath": "sub"}])
    exchanger = subprocess.Popen([sys.executable, "-c", EXCHANGER], cwd=root, stdout=subprocess.PIPE)
    reached = 0
    try:
        assert exchanger.stdout is not None
        exchanger.stdout.readline()
        await boxes.pod("victim")
        async with within("containers that the node agent would have started", 60):
            while reached < 20:
                try:
                    mounts = container_mounts(declared, {"v": Volume(root)}, {})
                except MountError:
                    await asyncio.sleep(0)
                    continue
                reached += 1
                with contextlib.suppress(StartError):
                    await boxes.start("victim", "ls", "/data", attempt=reached, mounts=mounts)
                    await boxes.end("victim", attempt=reached)
    finally:
        exchanger.kill()
        exchanger.communicate()
    assert boxes.output("victim") == ""


async def test_a_privileged_container_changes_no_setting_of_the_machine(boxes: Sandboxes) -> None:
    setting = Path("/proc/sys/kernel/core_pattern")
    before = setting.read_text()
    script = f"cat {setting} > /before; cat /before > {setting} || echo refused"
    _, output = await boxes.run("sysctl", "sh", "-c", script, privileged=True)
    assert (output.splitlines()[-1], setting.read_text()) == ("refused", before)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_all_of_it_as_an_ordinary_user(for_everybody: Path) -> None:
    assert "2 passed" in run_tests_as(54325, __file__, for_everybody)
