"""Pods as plain processes on the real kernel: nothing gets away, and what a pod has for itself without namespaces.

As root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import run_tests_as
from tests.cluster.sandboxes import Sandboxes, until
from tests.processes import is_running, processes_with
from trainshed.cluster.sandbox import bootstrap
from trainshed.cluster.sandbox.api import DnsRecords, Mount, Route, Runtime, RuntimePaths, RuntimeUnavailable
from trainshed.cluster.sandbox.daemon.plain.container import SHARED
from trainshed.cluster.sandbox.linux import landlock

AWAY = "(setsid sh -c 'echo $$; exec env -i sleep 987' &) ; (sleep 0.1; setsid sleep 987 &) ; "
"""Leaves processes behind that are in other sessions, one without the pod's environment."""
SERVE = """
import socket, sys
server = socket.create_server(("", 7777))
print("serves", server.getsockname(), flush=True)
while True:
    connection, peer = server.accept()
    connection.sendall(f"{socket.gethostname()} sees {peer[0]}".encode())
    connection.close()
"""
ASK = """
import socket, sys
for host, port in (("localhost", 7777), ("other", 7777), ("10.96.7.7", 80), ("front", 80)):
    print(host, socket.create_connection((host, port), 10).recv(99).decode())
"""


@pytest.fixture
async def boxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    """A runtime of plain processes; afterwards nothing may be left of it."""
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    runtime = Runtime(RuntimePaths.under(home), "plain")
    await runtime.start()
    sandboxes = Sandboxes(runtime, home)
    try:
        yield sandboxes
    finally:
        await sandboxes.close()
    assert processes_with(str(home)) == []


async def _number(boxes: Sandboxes, uid: str) -> int:
    """Return the number that a container prints first."""

    async def printed() -> bool:
        return "\n" in boxes.output(uid) if boxes.log(uid).exists() else False

    await until(f"{uid} to print", printed)
    return int(boxes.output(uid).split()[0])


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def _gone(*pids: int) -> None:
    async def gone() -> bool:
        return not any(is_running(pid) for pid in pids)

    await until(f"the ends of {pids}", gone)


async def test_what_a_container_leaves_behind_ends_with_it(boxes: Sandboxes) -> None:
    state, _ = await boxes.run("one", "sh", "-c", f"{AWAY} sleep 0.3; exit 3")
    assert state.exit_code == 3
    assert not is_running(await _number(boxes, "one"))


@pytest.mark.parametrize("killed", ["the reaper", "the shim", "both"])
async def test_nothing_outlives_what_watches_over_it(boxes: Sandboxes, killed: str) -> None:
    pod = await boxes.pod("one")
    script = "(setsid sh -c 'echo $$; exec sleep 987' &) ; exec sleep 987"
    started = await boxes.start("one", "sh", "-c", script)
    away = await _number(boxes, "one")
    assert started.pid is not None
    reaper = _parent(started.pid)
    assert _parent(reaper) == pod.pid
    victims = {"the reaper": [reaper], "the shim": [pod.pid], "both": [pod.pid, reaper]}[killed]
    for pid in victims:
        os.kill(pid, signal.SIGSTOP)  # neither sees the other's end
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    ended = await boxes.end("one")
    assert ended.exit_code == 137
    await _gone(started.pid, away)


async def test_exec_is_in_the_container_and_what_it_leaves_ends_with_it(boxes: Sandboxes) -> None:
    await boxes.pod("one")
    started = await boxes.start(
        "one", "sh", "-c", "trap 'echo told' USR1; trap 'exit 9' TERM; while :; do sleep 0.05; done"
    )
    code, output = await boxes.exec("one", "sh", "-c", "setsid sleep 987 >/dev/null 2>&1 & echo $!; exit 5")
    assert code == 5
    left = int(output)
    assert is_running(left)
    assert await boxes.exec("one", "kill", "-USR1", str(started.pid)) == (0, b"")

    async def told() -> bool:
        return "told" in boxes.output("one")

    await until("the command to be told by another process of its container", told)
    await boxes.runtime.signal_container("one", "c", signal.SIGTERM)
    assert (await boxes.end("one")).exit_code == 9
    await _gone(left)


async def test_pods_have_the_same_ports_names_and_services(boxes: Sandboxes) -> None:
    one = await boxes.pod("one", searches=("default.svc.cluster.local",), dns_options=("ndots:5",))
    two = await boxes.pod("two")
    for uid in ("one", "two"):
        await boxes.start(uid, "python3", "-u", "-c", SERVE)
    names = {"other.default.svc.cluster.local": (two.ip,), "front.default.svc.cluster.local": ("10.96.7.7",)}
    await boxes.runtime.set_records(DnsRecords(names))
    route = Route(protocol="tcp", ip="10.96.7.7", port=80, endpoints=((two.ip, 7777),))
    assert await boxes.runtime.set_routes([route]) == {}

    async def both_serve() -> bool:
        return all("serves" in boxes.output(uid) for uid in ("one", "two"))

    await until("both to serve", both_serve)
    assert boxes.output("one") == f"serves ('{one.ip}', 7777)\n"
    assert boxes.output("two") == f"serves ('{two.ip}', 7777)\n"
    code, output = await boxes.exec("one", "python3", "-c", ASK)
    assert code == 0, output
    expected = [f"localhost one sees {one.ip}"]
    expected += [f"{host} two sees {one.ip}" for host in ("other", "10.96.7.7", "front")]
    assert output.decode().splitlines() == expected
    stream = await boxes.runtime.dial("two", 7777)
    assert (await stream.read()).startswith(b"two sees ")
    await stream.close()


def _place_of_nobody() -> Path:
    """Return a directory that this user may write to, and a pod may not."""
    shared = tuple(Path(path).resolve() for path in SHARED)
    for place in (Path(bootstrap.source_directory()), Path.home(), Path.cwd()):
        if os.access(place, os.W_OK) and not any(place.resolve().is_relative_to(path) for path in shared):
            return place
    raise AssertionError("there is no such directory: run from one outside of /tmp")


async def test_a_pod_writes_to_its_own_files_and_volumes_alone(boxes: Sandboxes, tmp_path: Path) -> None:
    assert landlock.version() > 0, "this test needs Linux 5.13 with Landlock"
    volume, shown, secret = tmp_path / "volume", tmp_path / "shown", boxes.home / "secret"
    for directory in (volume, shown):
        directory.mkdir()
    (shown / "x").write_text("shown")
    secret.write_text("secret")
    mine = _place_of_nobody() / f".trainshed-test-{os.getpid()}"
    script = f"""
    echo wrote > /data/x; cat /shown/x; echo
    echo changed > /shown/x; cat {secret}; touch {mine}; kill -9 {os.getpid()}
    touch $HOME/a $TMPDIR/b c; pwd; exit 0
    """
    mounts = (Mount(str(volume), "/data"), Mount(str(shown), "/shown", read_only=True))
    state, output = await boxes.run("one", "sh", "-c", script, mounts=mounts, masked=(str(boxes.home),))
    assert state.exit_code == 0
    assert (volume / "x").read_text() == "wrote\n"
    assert (shown / "x").read_text() == "shown"
    assert not mine.exists()
    assert "shown" in output.splitlines()
    assert output.count("ermission denied") + output.count("cannot create") >= 3, output
    assert "secret\n" not in output and "not permitted" in output
    own = boxes.home / "pods/one/containers/c/0/own"
    assert f"{own / 'work'}\n" in output
    assert {path.name for path in own.rglob("*") if path.is_file()} == {"a", "b", "c"}


async def test_pods_of_one_kind_do_not_go_on_as_the_other(boxes: Sandboxes) -> None:
    with pytest.raises(RuntimeUnavailable, match="pods run with --isolation plain") as caught:
        await Runtime(boxes.runtime.paths).start()
    assert "trainshed down" in caught.value.remedy


async def test_two_clusters_have_addresses_of_their_own(boxes: Sandboxes, tmp_path: Path) -> None:
    other = Runtime(RuntimePaths.under(tmp_path / "other"), "plain")
    await other.start()
    theirs = Sandboxes(other, tmp_path)
    try:
        one, two = await asyncio.gather(boxes.pod("one"), theirs.pod("one"))
        assert one.ip.split(".")[1] != two.ip.split(".")[1]
    finally:
        await theirs.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_all_of_it_as_an_ordinary_user() -> None:
    """In a directory that pods may not write to for its place alone, as they may below /tmp."""
    with tempfile.TemporaryDirectory(prefix="trainshed-test-", dir="/run") as directory:
        Path(directory).chmod(0o711)
        assert "9 passed" in run_tests_as(54329, __file__, Path(directory))
