"""What a pod tries in order to get out of its box; each test is an attack that has worked on some container runtime."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.sandboxes import Sandboxes, log_text, within
from tests.unit.node_builders import make_container
from trainshed.cluster.node.volumes.mounts import container_mounts
from trainshed.cluster.node.volumes.volume import MountError, Volume
from trainshed.cluster.sandbox.api import Mount, StartError

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


CGROUPS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER, NEWCGROUP = 0x20000, 0x10000000, 0x2000000
for user in (0, NEWUSER):
    for cgroup in (0, NEWCGROUP):
        if os.fork() == 0:
            libc.unshare(user)
            libc.unshare(cgroup)
            libc.unshare(NEWNS)
            os.makedirs("/tmp/cg", exist_ok=True)
            for kind, data in (("cgroup2", None), ("cgroup", b"memory"), ("cgroup", b"pids"), ("cgroup", b"freezer")):
                if libc.mount(b"none", b"/tmp/cg", kind.encode(), 0, data) == 0:
                    print("mounted", kind, data, flush=True)
            os._exit(0)
        os.wait()
"""


@pytest.mark.parametrize("privileged", [False, True])
async def test_the_cgroups_of_the_machine_cannot_be_mounted(boxes: Sandboxes, privileged: bool) -> None:
    """Neither in namespaces of the pod's own making nor with all capabilities: cgroup.kill would end the cluster."""
    state, output = await boxes.run("cgroups", "python3", "-c", CGROUPS, privileged=privileged)
    assert (state.exit_code, output) == (0, "")


async def test_a_privileged_container_changes_no_setting_of_the_machine(boxes: Sandboxes) -> None:
    setting = Path("/proc/sys/kernel/core_pattern")
    before = setting.read_text()
    script = f"cat {setting} > /before; cat /before > {setting} || echo refused"
    _, output = await boxes.run("sysctl", "sh", "-c", script, privileged=True)
    assert (output.splitlines()[-1], setting.read_text()) == ("refused", before)


KEYRING = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
if sys.argv[1] == "add":
    assert libc.syscall(number[1], 1, None) > 0, "join"
    assert libc.syscall(number[0], b"user", b"trainshed-test", b"TICKET", 6, -3) > 0, "add"
    import runpy
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    print("found" if libc.syscall(number[1], 10, -3, b"user", b"trainshed-test", 0) > 0 else "nothing")
"""
START = """
import asyncio, sys
from pathlib import Path
from trainshed.cluster.sandbox.api import *

async def main(home, look):
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()
        events = runtime.events()
        await runtime.run_sandbox(SandboxSpec(uid="keys", namespace="d", name="keys", hostname="keys"))
        await runtime.start_container("keys", ContainerSpec(name="c", argv=("python3", "-c", look, "look"),
            env=(("PATH", "/usr/local/bin:/usr/bin:/bin"),), log_path=str(home / "keys.log")))
        await anext(events)
    finally:
        await runtime.stop_all()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""

OVERWRITE = """
import os
fd = os.open("/proc/self/exe", os.O_RDONLY)
print(os.statvfs(fd).f_flag & os.ST_RDONLY and "read-only" or "writable", flush=True)
"""


def test_the_keys_of_the_session_that_started_the_cluster_are_hidden(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    program = tmp_path / "start.py"
    program.write_text(START)
    command = [sys.executable, "-c", KEYRING, "add", str(program), str(home), KEYRING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert log_text(home / "keys.log") == "nothing\n"


async def test_the_interpreter_of_the_machine_cannot_be_written_to(boxes: Sandboxes, tmp_path: Path) -> None:
    """CVE-2019-5736: the script's interpreter is the program that was about to become the script."""
    script = tmp_path / "script"
    script.write_text("#!/proc/self/exe\n" + OVERWRITE)
    script.chmod(0o755)
    mounts = (Mount(str(script), "/script"),)
    _, output = await boxes.run("exe", "/script", mounts=mounts)
    assert output == "read-only\n"
    await boxes.pod("joined")
    await boxes.start("joined", "sleep", "60", mounts=mounts)
    _, printed = await boxes.exec("joined", "/script")
    assert printed == b"read-only\n"
