"""What containers may use: cores, processes, memory in volumes and of what `exec` starts. On the real kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cluster.sandboxes import Sandboxes, until
from trainshed.cluster.sandbox.client.keepers import keepers
from trainshed.cluster.sandbox.linux.limits import has_pids_per_namespace
from trainshed.cluster.sandbox.model import Amounts, ExecSpec, Keepers, MemoryVolume, Mount, SandboxNotFound

MIB = 1 << 20
CROWD = """
import os, sys, time
made = 0
try:
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        made += 1
except OSError as error:
    print("stopped:", error.strerror, made, flush=True)
print("made", made, flush=True)
time.sleep(1000)
"""
THREADS = """
import threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("there", flush=True)
time.sleep(60)
"""
MORE = """
print("there", flush=True)
while True:
    amount = int(input())
    held = bytearray(amount << 20)
    print("holds", amount, flush=True)
"""
HOLD = "import time; held = bytearray({} << 20); print('there', flush=True); time.sleep(60)"


def kept(boxes: Sandboxes) -> Keepers:
    """Return what keeps limits here: each test holds with cgroups and without."""
    found = keepers(boxes.home / "run")
    assert found is not None
    return found


async def said(boxes: Sandboxes, uid: str, word: str) -> None:
    async def there() -> bool:
        return boxes.log(uid).exists() and word in boxes.output(uid)

    await until(f"{uid} says {word}", there)


async def test_a_container_stays_on_its_cores_and_small_requests_are_nice(boxes: Sandboxes) -> None:
    core = min(os.sched_getaffinity(0))
    await boxes.pod("one")
    state = await boxes.start(
        "one", "sleep", "60", cpu_limit=500, cpu_request=100, cpu_largest=1000, cpus=(core,)
    )
    assert state.pid is not None
    code, output = await boxes.exec("one", "sh", "-c", "cat /sys/fs/cgroup/cpu.max 2>/dev/null; nproc")
    if "cgroup" in kept(boxes).cpu:
        assert (code, output.splitlines()[0]) == (0, b"50000 100000"), "its own, where programs look for it"
    else:
        assert os.sched_getaffinity(state.pid) == {core}
        assert os.getpriority(os.PRIO_PROCESS, state.pid) == 4 + os.nice(0)
        assert output.splitlines()[-1] == b"1", "what joins it stays there, too"


async def test_half_a_core_is_half_a_core_where_the_kernel_keeps_it(boxes: Sandboxes) -> None:
    """And no more than one elsewhere, whatever many processes there are."""
    core = min(os.sched_getaffinity(0))
    await boxes.pod("busy")
    await boxes.start(
        "busy", "sh", "-c", "for i in 1 2 3; do while :; do :; done & done; wait", cpu_limit=500, cpus=(core,)
    )
    began = time.monotonic()  # before the first look, and the end after the last: no time is left out
    before = (await boxes.runtime.usage("busy")).cpu_seconds
    used = 0.0

    async def has_worked() -> bool:
        nonlocal used
        used = (await boxes.runtime.usage("busy")).cpu_seconds - before
        return used >= 0.5

    await until("half a second of work", has_worked)
    elapsed = time.monotonic() - began
    most = 0.6 if "cgroup" in kept(boxes).cpu else 1.1
    assert used < most * elapsed + 0.1


async def test_a_container_that_runs_is_resized_with_all_that_it_started(boxes: Sandboxes) -> None:
    """Its processes, their threads, and what joined it; by a cgroup where there is one."""
    first, all_cores = min(os.sched_getaffinity(0)), os.sched_getaffinity(0)
    await boxes.pod("grows")
    state = await boxes.start(
        "grows",
        "python3",
        "-c",
        THREADS,
        cpu_limit=500,
        cpu_request=1000,
        cpus=(first,),
        memory_limit=64 * MIB,
    )
    assert state.pid is not None
    assert state.amounts == Amounts(memory_limit=64 * MIB, cpu_limit=500, cpu_request=1000)
    await said(boxes, "grows", "there")
    amounts = Amounts(memory_limit=96 * MIB, cpu_limit=1500, cpu_request=125)
    await boxes.runtime.resize_container("grows", "c", amounts, ())
    (found,) = [one for one in await boxes.runtime.list() if one.uid == "grows"]
    assert found.containers[0].amounts == amounts, "also for who comes later"
    _, output = await boxes.exec("grows", "sh", "-c", "cd /sys/fs/cgroup; cat cpu.max cpu.weight; nproc")
    tasks = [int(task.name) for task in Path(f"/proc/{state.pid}/task").iterdir()]
    assert len(tasks) == 3
    if "cgroup" in kept(boxes).cpu:
        assert output.split()[:3] == [b"150000", b"100000", b"5"]
    else:
        assert [os.sched_getaffinity(task) for task in tasks] == [all_cores] * 3
    if "cgroup" in kept(boxes).memory:
        _, output = await boxes.exec("grows", "cat", "/sys/fs/cgroup/memory.max")
        assert int(output) == 96 * MIB
    await boxes.runtime.resize_container("grows", "c", amounts, (first,))
    if "cgroup" not in kept(boxes).cpu:
        assert [os.sched_getaffinity(task) for task in tasks] == [{first}] * 3
    with pytest.raises(SandboxNotFound):
        await boxes.runtime.resize_container("grows", "other", amounts, ())


async def test_a_memory_limit_that_was_raised_is_the_one_that_is_kept(boxes: Sandboxes) -> None:
    await boxes.pod("hungry")
    await boxes.start("hungry", "python3", "-c", MORE, stdin=True, memory_limit=64 * MIB)
    await said(boxes, "hungry", "there")
    await boxes.runtime.resize_container("hungry", "c", Amounts(memory_limit=160 * MIB), ())
    session = await boxes.runtime.attach("hungry", "c", stdin=True)
    await session.write_stdin(b"80\n")
    await said(boxes, "hungry", "holds 80")
    await session.write_stdin(b"300\n")
    ended = await boxes.end("hungry")
    await session.close()
    assert ended.exit_code == 137 and ended.held_bytes > 150 * MIB


async def test_one_without_a_limit_has_all_cores_and_the_weight_of_its_request(boxes: Sandboxes) -> None:
    await boxes.pod("all")
    state = await boxes.start("all", "sleep", "60", cpu_request=4000)
    assert state.pid is not None
    assert os.sched_getaffinity(state.pid) == os.sched_getaffinity(0)
    assert os.getpriority(os.PRIO_PROCESS, state.pid) == os.nice(0)


async def test_a_small_request_yields_while_a_larger_one_runs_and_not_to_its_equals(boxes: Sandboxes) -> None:
    await boxes.pod("plain")
    await boxes.start("plain", "sh", "-c", "setsid sleep 60 & wait")
    code, _ = await boxes.exec("plain", "sh", "-c", "test $(nice) -eq " + str(os.nice(0)))
    assert code == 0
    await boxes.pod("second")
    state = await boxes.start("second", "sleep", "60")
    assert state.pid is not None

    async def weighs(value: int) -> bool:
        children = Path(f"/proc/{state.pid}/task").iterdir()
        own = {os.getpriority(os.PRIO_PROCESS, int(child.name)) for child in children}
        return own == {value + os.nice(0)} and group(state.pid) in (None, value)

    assert await weighs(0), "as any process of the user"
    if "cgroup" in kept(boxes).cpu:
        return
    await boxes.runtime.share_cpu("second", 1000)
    await until("it yields", lambda: weighs(5))
    code, output = await boxes.exec("second", "nice")
    assert int(output) == 5 + os.nice(0), "what joins it does, too"
    await boxes.runtime.share_cpu("second", 125)
    if group(state.pid) is not None:
        await until("its session yields less", lambda: holds(group(state.pid) == 2))


async def holds(value: bool) -> bool:
    return value


def group(pid: int | None) -> int | None:
    """Return the nice value of the session of a process, where the kernel groups them.

    The file is empty for what stayed in the group that the kernel made at boot, as processes may that an `init` without
    a session started.
    """
    try:
        text = Path(f"/proc/{pid}/autogroup").read_text()
    except OSError:
        return None
    return int(text.rpartition(" ")[2]) if text else None


async def test_a_pod_gets_no_more_processes_than_it_may_have_and_others_do(boxes: Sandboxes) -> None:
    """Beyond the numbers that the kernel gives once only; without a namespace's own it ends the container."""
    await boxes.pod("crowd", pids_limit=100)
    await boxes.pod("other", pids_limit=100)
    await boxes.start("crowd", "python3", "-c", CROWD, "1000")
    if has_pids_per_namespace() or "cgroup" in kept(boxes).pids:
        await said(boxes, "crowd", "made")
        stopped = boxes.output("crowd").split()
        assert stopped[:-3] == ["stopped:", "Resource", "temporarily", "unavailable"], stopped
        assert 60 <= int(stopped[-1]) <= 400, "a cgroup keeps the very number"
    else:
        ended = await boxes.end("crowd")
        assert (ended.exit_code, ended.message) == (137, "the pod had more than 100 processes, its limit")
    await boxes.start("other", "python3", "-c", CROWD, "60")
    await said(boxes, "other", "made 60")


async def test_what_exec_starts_counts_as_memory_of_the_container(boxes: Sandboxes) -> None:
    await boxes.pod("host")
    await boxes.start("host", "sleep", "60", memory_limit=100 * MIB)
    hog = ("python3", "-c", HOLD.format(150))
    session = await boxes.runtime.exec("host", ExecSpec(container="c", argv=hog, env=()))
    ended = await boxes.end("host")
    assert ended.exit_code == 137
    assert ended.held_bytes >= 100 * MIB, "by a cgroup it never holds more"
    await session.close()


async def test_a_volume_in_memory_is_as_large_as_it_may_be_and_counts(
    boxes: Sandboxes, tmp_path: Path
) -> None:
    where = tmp_path / "scratch"
    where.mkdir()
    volume = MemoryVolume(str(where), 64 * MIB)
    mounts = (Mount(str(where), "/scratch"),)
    await boxes.pod("small", memory_volumes=(volume,))
    fill = "head -c 100000000 /dev/zero > /scratch/f; stat -c %s /scratch/f; sleep 60"
    await boxes.start("small", "sh", "-c", fill, mounts=mounts)
    await said(boxes, "small", "No space left")
    await said(boxes, "small", str(64 * MIB))
    assert list(where.iterdir()) == [], "nobody else sees it"
    used = await boxes.runtime.usage("small")
    assert used.memory_bytes > 64 * MIB
    _, seen = await boxes.exec("small", "stat", "-c", "%s", "/scratch/f")
    assert seen.split() == [str(64 * MIB).encode()], "a process that joins sees it"
    await boxes.pod("full", memory_volumes=(volume,))
    await boxes.start("full", "sh", "-c", fill, mounts=mounts, memory_limit=40 * MIB)
    ended = await boxes.end("full")
    assert ended.exit_code == 137
    assert ended.held_bytes >= 40 * MIB
