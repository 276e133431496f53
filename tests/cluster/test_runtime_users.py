"""Users of the machine and pods: nobody else reads them, and somebody without subordinate ids can run them."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import python_for_everybody, run_as
from tests.cluster.sandboxes import Sandboxes, log_text


async def test_nobody_else_on_the_machine_reads_a_pod(boxes: Sandboxes) -> None:
    await boxes.pod("secret")
    await boxes.start("secret", "sh", "-c", "echo secret > /file; sleep 60")
    for path in (boxes.home / "run", boxes.home / "pods", boxes.home / "pods" / "secret", boxes.home / "log"):
        assert path.stat().st_mode & 0o077 == 0
    for path in boxes.home.rglob("*.sock"):
        assert path.stat().st_mode & 0o077 == 0
    if os.geteuid() != 0:
        pytest.skip("only root can try it as someone else")
    container = (boxes.home / "pods/secret/containers/c/0/root").stat()
    assert container.st_mode & 0o777 == 0o755  # the directories above it are what protects it
    # The descriptor of the directory is inherited: what remains is the mode of the socket.
    script = "import socket, sys; socket.socket(socket.AF_UNIX).connect(f'/proc/self/fd/{sys.argv[1]}/sandboxd.sock')"
    directory = os.open(boxes.home / "run", os.O_PATH)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", script, str(directory)],
        user=12345,
        group=12345,
        extra_groups=[],
        pass_fds=[directory],
        cwd="/",
        capture_output=True,
        check=False,
    )
    os.close(directory)
    assert b"PermissionError" in done.stderr


USER_SCRIPT = """
import asyncio, json, os, sys
from pathlib import Path
from trainshed.cluster.sandbox.api import *

async def main(home):
    runtime = Runtime(RuntimePaths.under(Path(home)))
    try:
        await runtime.start()
        events = runtime.events()
        out = []
        for uid, fields in (("root", {}), ("other", {"uid": 1000, "gid": 1001})):
            sandbox = await runtime.run_sandbox(SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid))
            script = (
                "id -u; id -g; touch /mine /usr/mine /tmp/mine && echo wrote; hostname -I; pwd; "
                "cat /usr/share/layer/a /usr/share/layer/b/c /usr/local/share/x.conf; "
                "echo data > /usr/local/lib/deep/er/out || exit 9; touch /usr/local/lib/beside || exit 9; "
                "[ $(id -u) != 0 ] || touch /root/.cache || exit 9; exit 4"
            )
            data = f"{home}/data-{uid}"
            os.makedirs(data)
            with open(f"{home}/x.conf", "w") as file:
                file.write("conf\\n")
            os.makedirs(f"{home}/layer/b", exist_ok=True)
            for name in ("a", "b/c"):
                with open(f"{home}/layer/{name}", "w") as file:
                    file.write(f"layer-{name}\\n")
            # None of these directories of the host's root can take a mount point from an ordinary user.
            mounts = (
                Mount(source=data, path="/usr/local/lib/deep/er"),
                Mount(source=f"{home}/x.conf", path="/usr/local/share/x.conf"),
            )
            shared = await runtime.run_sandbox(SandboxSpec(uid=f"shared-{uid}", namespace="n", name="p", hostname="h",
                share_processes=True))
            await runtime.start_container(shared.uid, ContainerSpec(name="c", argv=("sh", "-c", "id -u; exit 5"),
                env=(("PATH", "/usr/bin:/bin"),), log_path=f"{home}/shared-{uid}.log", **fields))
            _, state = await anext(events)
            out.append([state.exit_code, shared.ip])
            await runtime.remove_sandbox(shared.uid)
            layers = (Layer(source=f"{home}/layer", path="/usr/share/layer"),)
            await runtime.start_container(uid, ContainerSpec(name="c", argv=("sh", "-c", script),
                env=(("PATH", "/usr/bin:/bin"),), log_path=f"{home}/{uid}.log", masked=(home,),
                mounts=mounts, layers=layers, cwd="/usr/local/lib/work/there", **fields))
            _, state = await anext(events)
            out.append([state.exit_code, sandbox.ip])
            await runtime.remove_sandbox(uid)
        print(json.dumps(out))
    finally:
        await runtime.stop_all()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_without_subordinate_ids(for_everybody: Path) -> None:
    """One id only: the container's user stands for the caller, whichever number it has."""
    uid = 54321
    python = python_for_everybody(uid)
    home = for_everybody / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    done = run_as(uid, python, "-c", textwrap.dedent(USER_SCRIPT), str(home))
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    shared = [results.pop(2), results.pop(0)]
    assert [code for code, _ in shared] == [5, 5], log_text(home / "shared-other.log")
    assert log_text(home / "shared-other.log").split() == ["1000"]
    assert [code for code, _ in results] == [4, 4], log_text(home / "root.log") + log_text(home / "other.log")
    mounted = ["/usr/local/lib/work/there", "layer-a", "layer-b/c", "conf"]
    assert log_text(home / "root.log").split() == ["0", "0", "wrote", results[0][1], *mounted]
    assert log_text(home / "other.log").split() == ["1000", "1001", "wrote", results[1][1], *mounted]
    for name in ("root", "other"):
        assert (home / f"data-{name}" / "out").read_text() == "data\n"
    assert list((home / "pods").iterdir()) == []
