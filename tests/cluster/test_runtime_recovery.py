"""What survives when the control plane, a daemon or a shim is killed, and what is told of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.cluster.runtime_programs import CLIENT, SERVER
from tests.cluster.sandboxes import Sandboxes, log_text, until, within
from tests.processes import is_running
from trainshed.cluster.sandbox import files, logfile, pids
from trainshed.cluster.sandbox.api import (
    DnsRecords,
    Mount,
    Runtime,
    RuntimeLost,
    RuntimePaths,
)
from trainshed.cluster.sandbox.client import recovery
from trainshed.cluster.sandbox.client.connection import Connection

CONTROL_PLANE = """
import asyncio, sys
from pathlib import Path
from trainshed.cluster.sandbox.api import *

async def main(home):
    runtime = Runtime(RuntimePaths.under(Path(home)))
    await runtime.start()
    await runtime.run_sandbox(SandboxSpec(uid="job", namespace="default", name="job", hostname="job"))
    script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; [ $((i % 100)) = 0 ] && sleep 0.02; done"
    script += "; seq 9000 20000; printf unfinished; exit 6"  # more than a pipe holds, right before the end
    await runtime.start_container("job", ContainerSpec(name="c", argv=("sh", "-c", script),
        env=(("PATH", "/usr/bin:/bin"),), log_path=home + "/job.log"))
    print("started", flush=True)
    await asyncio.sleep(60)

asyncio.run(main(sys.argv[1]))
"""


async def test_kill_9_of_the_control_plane_loses_no_line_and_no_exit_code(tmp_path: Path) -> None:
    home = tmp_path / "state"
    home.mkdir()
    command = [sys.executable, "-c", CONTROL_PLANE, str(home)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    async with within("the pod to start"):
        if await process.stdout.readline() != b"started\n":
            pytest.skip("no sandboxes here")
    process.kill()
    await process.wait()
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()

        async def has_ended() -> bool:
            (state,) = await runtime.list()
            assert state.alive
            return state.containers[0].exit_code == 6

        await until("the exit code 6", has_ended)
        lines = [
            *(f"line {number}" for number in range(1, 3001)),
            *map(str, range(9000, 20001)),
            "unfinished",
        ]
        assert log_text(home / "job.log") == "\n".join(lines)
    finally:
        await runtime.stop_all()


FULL_PIPE = """
import fcntl, os, time
while not os.path.exists("/go/now"):
    time.sleep(0.01)
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
os.write(1, b"".join(b"line %d\\n" % number for number in range(50000)))
"""


async def test_what_is_in_the_pipe_when_a_container_ends_is_logged(boxes: Sandboxes, tmp_path: Path) -> None:
    """The shim sees the end and half a megabyte of output at once, for it was stopped meanwhile."""
    (tmp_path / "go").mkdir()
    sandbox = await boxes.pod("full")
    mount = Mount(str(tmp_path / "go"), "/go")
    container = await boxes.start("full", "python3", "-c", FULL_PIPE, mounts=(mount,))

    async def has_ended() -> bool:
        return container.pid is not None and not is_running(container.pid)

    os.kill(sandbox.pid, signal.SIGSTOP)
    try:
        (tmp_path / "go" / "now").touch()
        await until("the container to end", has_ended)
    finally:
        os.kill(sandbox.pid, signal.SIGCONT)
    await boxes.end("full")
    assert boxes.output("full") == "".join(f"line {number}\n" for number in range(50000))


async def test_a_killed_sandboxd_is_replaced_and_pods_live_on(
    boxes: Sandboxes, caplog: pytest.LogCaptureFixture
) -> None:
    old = await boxes.pod("old")
    await boxes.start("old", "python3", "-c", SERVER, "survived")
    await boxes.printed("old", "up\n")
    connection = Connection(str(boxes.home / "run" / "sandboxd.sock"))
    os.kill(connection.peer_pid, signal.SIGKILL)
    await connection.receive()
    connection.close()
    assert [state.alive for state in await boxes.runtime.list()] == [True]
    await boxes.runtime.start()
    assert "sandboxd had died" in caplog.text
    new = await boxes.pod("new")
    await boxes.start("new", "sleep", "60")
    assert new.ip != old.ip
    assert await boxes.exec("new", "python3", "-c", CLIENT, old.ip, "23456") == (0, b"survived\n")


async def test_both_daemons_are_replaced_and_the_network_is_the_same(boxes: Sandboxes) -> None:
    await boxes.pod("old", nameservers=("10.88.0.1",))
    await boxes.start("old", "sleep", "60")
    await boxes.runtime.set_records(DnsRecords(services={"kept.default.svc.cluster.local": ("10.88.9.9",)}))
    for name in ("netd", "sandboxd"):
        connection = Connection(str(boxes.home / "run" / f"{name}.sock"))
        os.kill(connection.peer_pid, signal.SIGKILL)
        await connection.receive()
        connection.close()
    await boxes.runtime.start()
    look_up = "import socket; print(socket.gethostbyname('kept.default.svc.cluster.local'))"
    assert await boxes.exec("old", "python3", "-c", look_up) == (0, b"10.88.9.9\n")


async def test_a_malformed_request_does_not_hurt_the_pod(boxes: Sandboxes) -> None:
    await boxes.pod("tough")
    await boxes.start("tough", "sleep", "60")
    for request in ({"op": "signal"}, {"op": "start", "spec": {}}, {"op": "nonsense"}):
        connection = Connection(str(boxes.home / "pods/tough/sandbox/shim.sock"))
        with pytest.raises(RuntimeLost, match=r"internal error|unknown operation"):
            await connection.ask(request)
        connection.close()
    assert await boxes.exec("tough", "true") == (0, b"")


@pytest.mark.parametrize(
    ("booted", "code", "message"), [("", 137, recovery.SHIM_DIED), ("earlier", 255, recovery.REBOOTED)]
)
async def test_a_killed_shim_takes_its_containers_along_and_says_so(
    boxes: Sandboxes, booted: str, code: int, message: str
) -> None:
    """One that ended with the machine, too, of which nobody knows how: what it wrote is of another run of it."""
    sandbox = await boxes.pod("lost")
    container = await boxes.start("lost", "sleep", "60")
    file = str(boxes.home / "pods/lost/sandbox" / files.SANDBOX)
    written = files.read_state(file)
    assert written is not None and written["boot"] == pids.boot_id() != ""
    files.write_state(file, {**written, "boot": booted or written["boot"]})
    os.kill(sandbox.pid, signal.SIGKILL)
    state = await boxes.end("lost")
    assert (state.exit_code, state.message, state.unknown) == (code, message, bool(booted))
    (found,) = await boxes.runtime.list()
    assert (found.alive, found.containers[0].exit_code) == (False, code)

    async def is_dead() -> bool:
        return container.pid is not None and not is_running(container.pid)

    await until("the container to die with its shim", is_dead)
    again = await boxes.pod("lost")  # the pod can be made again, and knows what was before
    assert (again.alive, again.containers, again.containers[0].past) == (True, found.containers, True)
    assert await boxes.start("lost", "sleep", "60") == found.containers[0]
    second = await boxes.start("lost", "sleep", "60", attempt=1)
    (renewed,) = await boxes.runtime.list()
    assert renewed.containers == (second, found.containers[0])
    assert not second.past


async def test_an_end_before_the_shim_was_asked_for_ends_is_told(
    boxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await boxes.run("quick", "sh", "-c", "exit 7")
    read = recovery.read
    # As it was when another runtime looked, whose question came late to the shim.
    monkeypatch.setattr(
        recovery, "read", lambda paths, uid: msgspec.structs.replace(read(paths, uid), containers=())
    )
    late = Runtime(RuntimePaths.under(boxes.home))
    try:
        await late.start()
        async with within("the end of quick/c"):
            uid, state = await anext(late.events())
        assert (uid, state.name, state.exit_code) == ("quick", "c", 7)
    finally:
        await late.close()


async def test_logs_of_the_daemons_are_put_aside_when_they_are_long(tmp_path: Path) -> None:
    home = tmp_path / "state"
    (home / "log").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    logs = [home / "log" / f"{name}.log" for name in ("sandboxd", "netd")]
    for path in logs:
        with path.open("wb") as file:
            file.truncate(logfile.LIMIT_BYTES)
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()

        async def are_rotated() -> bool:
            return all(path.with_name(f"{path.name}.1").exists() and path.exists() for path in logs)

        await until("logs that were put aside", are_rotated)
    finally:
        await runtime.stop_all()
