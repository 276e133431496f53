"""What containers may use: cores, processes, memory in volumes and of what `exec` starts. On the real kernel."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.sandboxes import Sandboxes, until
from trainshed.cluster.sandbox.client.keepers import keepers
from trainshed.cluster.sandbox.linux.limits import has_pids_per_namespace
from trainshed.cluster.sandbox.model import ExecSpec, MemoryVolume, Mount

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
HOLD = "import time; held = bytearray({} << 20); print('there', flush=True); time.sleep(60)"


async def said(boxes: Sandboxes, uid: str, word: str) -> None:
    async def there() -> bool:
        return boxes.log(uid).exists() and word in boxes.output(uid)

    await until(f"{uid} says {word}", there)


async def test_a_container_stays_on_its_cores_and_small_requests_are_nice(boxes: Sandboxes) -> None:
    core = min(os.sched_getaffinity(0))
    await boxes.pod("one")
    state = await boxes.start("one", "sleep", "60", cpu_limit=500, cpu_request=100, cpus=(core,))
    assert state.pid is not None
    assert "cgroup" in _cpu(boxes) or os.sched_getaffinity(state.pid) == {core}
    assert "cgroup" in _cpu(boxes) or os.getpriority(os.PRIO_PROCESS, state.pid) == 4 + os.nice(0)
    code, output = await boxes.exec("one", "python3", "-c", "import os; print(len(os.sched_getaffinity(0)))")
    assert code == 0
    assert "cgroup" in _cpu(boxes) or output == b"1\n"


def _cpu(boxes: Sandboxes) -> str:
    found = keepers(boxes.home / "run")
    assert found is not None
    return found.cpu


async def test_one_without_a_limit_has_all_cores_and_the_weight_of_its_request(boxes: Sandboxes) -> None:
    await boxes.pod("all")
    state = await boxes.start("all", "sleep", "60", cpu_request=4000)
    assert state.pid is not None
    assert os.sched_getaffinity(state.pid) == os.sched_getaffinity(0)
    assert os.getpriority(os.PRIO_PROCESS, state.pid) == os.nice(0)


async def test_a_pod_gets_no_more_processes_than_it_may_have_and_others_do(boxes: Sandboxes) -> None:
    """Beyond the numbers that the kernel gives once only; without a namespace's own it ends the container."""
    await boxes.pod("crowd", pids_limit=400)
    await boxes.pod("other", pids_limit=400)
    await boxes.start("crowd", "python3", "-c", CROWD, "2000")
    if has_pids_per_namespace():
        await said(boxes, "crowd", "made")
        stopped = boxes.output("crowd").split()
        assert stopped[:-3] == ["stopped:", "Resource", "temporarily", "unavailable"], stopped
        assert 300 <= int(stopped[-1]) <= 700
    else:
        ended = await boxes.end("crowd")
        assert (ended.exit_code, ended.message) == (137, "the pod had more than 400 processes, its limit")
    await boxes.start("other", "python3", "-c", CROWD, "350")
    await said(boxes, "other", "made 350")


async def test_what_exec_starts_counts_as_memory_of_the_container(boxes: Sandboxes) -> None:
    await boxes.pod("host")
    await boxes.start("host", "sleep", "60", memory_limit=100 * MIB)
    hog = ("python3", "-c", HOLD.format(150))
    session = await boxes.runtime.exec("host", ExecSpec(container="c", argv=hog, env=()))
    ended = await boxes.end("host")
    assert ended.exit_code == 137
    assert ended.held_bytes > 100 * MIB
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
    assert ended.held_bytes > 40 * MIB
