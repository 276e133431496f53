"""Between the fork of a shim and its record: nobody takes it for gone, no pod gets two, and none whom nobody wants.

As root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.cluster.ordinary_user import run_tests_as
from tests.cluster.sandboxes import Sandboxes, until, within
from tests.processes import is_running, parent_of, processes_with
from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.api import Runtime, RuntimePaths, SandboxSpec
from trainshed.cluster.sandbox.client.connection import connected
from trainshed.cluster.sandbox.podlock import claim


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    """A runtime of its own: its daemon is stopped and killed."""
    runtime = Runtime(RuntimePaths.under(tmp_path))
    await runtime.start()
    box = Sandboxes(runtime, tmp_path)
    yield box
    await box.close()


def spec(uid: str) -> SandboxSpec:
    return SandboxSpec(uid=uid, namespace="default", name=uid, hostname=uid)


def daemon_of(box: Sandboxes) -> int:
    """Return the pid of sandboxd."""
    with wire.connect(str(box.home / "run" / "sandboxd.sock"), timeout=5) as sock:
        answer, _ = wire.ask(sock, {"op": "ping"})
    return int(answer["pid"])


def shims(box: Sandboxes) -> list[int]:
    names = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in processes_with(str(box.home / "run"))}
    found = [pid for pid, name in names.items() if name.startswith("trainshed-shim")]
    return [
        pid for pid in found if parent_of(pid) not in found
    ]  # not what has been forked and has no name yet


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_request_of_one_who_is_gone_makes_no_shim(box: Sandboxes) -> None:
    """A control plane asked, and was killed before sandboxd had looked: the pod may be deleted by then."""
    daemon = daemon_of(box)
    os.kill(daemon, signal.SIGSTOP)
    try:
        async with connected(str(box.home / "run" / "sandboxd.sock")) as connection:
            await connection.send({"op": "run", "spec": msgspec.to_builtins(spec("gone"))})
    finally:
        os.kill(daemon, signal.SIGCONT)
    await box.pod("later")  # asked after it, and answered after it
    assert not (box.home / "pods" / "gone").exists()
    assert len(shims(box)) == 1


async def test_a_pod_that_has_a_shim_already_costs_no_address(box: Sandboxes) -> None:
    held = claim(str(box.home / "pods" / "twice"))
    try:
        async with connected(str(box.home / "run" / "sandboxd.sock")) as connection:
            answer, _ = await connection.ask({"op": "run", "spec": msgspec.to_builtins(spec("twice"))})
        assert answer == {"taken": True}
        assert list((box.home / "run" / "addresses").iterdir()) == []
    finally:
        os.close(held)
    assert (await box.pod("twice")).alive


async def test_a_shim_whose_asker_and_daemon_are_killed_while_it_starts_ends_and_another_follows(
    box: Sandboxes,
) -> None:
    """It is held between its fork and its record by an attempt of before that takes long to read."""
    attempt = box.home / "pods" / "slow" / "containers" / "c" / "0"
    attempt.mkdir(parents=True)
    os.mkfifo(attempt / "state.json")
    asked = asyncio.create_task(box.runtime.run_sandbox(spec("slow")))

    async def forked() -> bool:
        return bool(shims(box))

    await until("the shim is forked", forked)
    (pid,) = shims(box)
    os.kill(daemon_of(box), signal.SIGKILL)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)

    again = Runtime(box.runtime.paths)
    starting = asyncio.create_task(again.start())
    async with within("the shim to read"):
        while True:
            try:
                writing = os.open(attempt / "state.json", os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:  # it has not come so far
                await asyncio.sleep(0.01)
    assert not (box.home / "pods" / "slow" / "sandbox" / "sandbox.json").exists()
    (attempt / "state.json").unlink()  # nobody else is held up by it
    os.close(writing)
    async with within("the new daemon"):
        await starting
    state = await again.run_sandbox(spec("slow"))
    assert state.alive and shims(box) == [state.pid] != [pid]
    assert [path.name for path in (box.home / "run" / "addresses").iterdir()] == [state.ip]
    assert (box.home / "log" / "sandboxd.log").read_text() == ""
    await again.close()


async def test_the_first_container_is_the_process_that_waits_for_it_and_others_are_new(
    box: Sandboxes,
) -> None:
    shim = (await box.pod("one")).pid

    async def waits() -> bool:
        return len(children(shim)) == 1

    await until("the process that waits", waits)
    (spare,) = children(shim)
    first = await box.start("one", "sleep", "60")
    assert (first.pid, children(shim)) == (spare, [spare])
    second = await box.start("one", "sleep", "60", name="other", log_path=str(box.home / "other.log"))
    assert second.pid != spare and children(shim) == [spare, second.pid]


async def test_a_container_starts_though_the_process_that_waits_for_it_is_killed(box: Sandboxes) -> None:
    shim = (await box.pod("one")).pid

    async def waits() -> bool:
        return len(children(shim)) == 1

    await until("the process that waits", waits)
    (spare,) = children(shim)
    os.kill(spare, signal.SIGKILL)

    async def is_dead() -> bool:
        return not is_running(spare)

    await until("its end", is_dead)
    state = await box.start("one", "sh", "-c", "echo here; exit 3")
    assert state.pid != spare
    assert (await box.end("one")).exit_code == 3
    assert box.output("one") == "here\n"
    assert children(shim) == []


async def test_nothing_waits_for_containers_that_do_not_come(box: Sandboxes) -> None:
    shim, shared = (await box.pod("one")).pid, (await box.pod("two", share_processes=True)).pid

    async def nothing() -> bool:
        return children(shim) == []

    await until("the process that waits to end", nothing)
    assert children(shared) == []
    await box.start("one", "sh", "-c", "exit 3")
    assert (await box.end("one")).exit_code == 3


async def test_what_sandboxd_was_asked_for_ends_before_it(box: Sandboxes) -> None:
    """Who asked for a removal is killed, and the cluster stopped: nothing of it runs afterwards."""
    tree = box.home / "tree"
    for directory in range(30):
        (tree / str(directory)).mkdir(parents=True)
        for file in range(300):
            (tree / str(directory) / str(file)).touch()
    async with connected(str(box.home / "run" / "sandboxd.sock")) as connection:
        await connection.send({"op": "remove_tree", "path": str(tree)})
    await box.runtime.stop_all()
    assert processes_with(str(box.home / "run")) == []
    assert not tree.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_all_of_it_as_an_ordinary_user(for_everybody: Path) -> None:
    assert "7 passed" in run_tests_as(54324, __file__, for_everybody)
