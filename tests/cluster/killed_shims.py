"""A program that kills shims at all moments of their pods' starts, and tells what ran how often.

`python killed_shims.py HOME PODS` does what the node agent does: an attempt that left no trace is made again. Prints
a JSON object: how often each pod's command ran, and what outlived its shim or the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from trainshed.cluster.sandbox.api import ContainerSpec, Mount, Runtime, RuntimePaths, SandboxSpec
from trainshed.cluster.sandbox.model import RuntimeLost, SandboxNotFound, StartError

ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
AT_ONCE = 4
STEP = 0.0015  # seconds between the moments at which shims are killed
# It forgets the signal that its parent's death would send, which a change of uid does, too, and leaves a child.
DEFIANT = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
if sys.argv[1] == "setuid":
    os.setgid(1000)
    os.setuid(1000)
print("up", flush=True)
time.sleep(1000)
"""


def running(word: str) -> list[int]:
    """Return the processes whose command line holds `word`."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_other = entry.name.isdigit() and int(entry.name) != os.getpid()
            if is_other and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


async def again(runtime: Runtime, spec: SandboxSpec, container: ContainerSpec) -> None:
    """Make the attempt once more; a shim that is ending is asked again, as the node agent does."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(RuntimeLost):
                await runtime.run_sandbox(spec)
                await runtime.start_container(spec.uid, container)
                return


async def early(runtime: Runtime, home: Path, number: int) -> int:
    """Kill the shim `number` steps after a start was asked for; return how often the command ran."""
    uid = f"early-{number}"
    data = home / uid
    data.mkdir()
    spec = SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid)
    container = ContainerSpec(
        name="c",
        argv=("sh", "-c", f"echo x >> /data/starts; exec sleep 1{number:03d}{os.getpid()}"),
        env=ENV,
        log_path=str(home / f"{uid}.log"),
        mounts=(Mount(str(data), "/data"),),
    )
    sandbox = await runtime.run_sandbox(spec)
    start = asyncio.create_task(runtime.start_container(uid, container))
    await asyncio.sleep(STEP * number)
    os.kill(sandbox.pid, signal.SIGKILL)
    with contextlib.suppress(RuntimeLost, SandboxNotFound, StartError):
        await start
    (found,) = [state for state in await runtime.list() if state.uid == uid]
    if not found.containers:
        await again(runtime, spec, container)
    await runtime.stop_sandbox(uid)
    starts = data / "starts"
    return len(starts.read_text().split()) if starts.exists() else 0


async def defiant(runtime: Runtime, home: Path, how: str, **fields: int) -> list[int]:
    """Kill the shim of processes that do not want to die with it; return those that live on when it is over."""
    uid, mark = f"defiant-{how}", f"mark-{how}-{os.getpid()}"
    log = home / f"{uid}.log"
    await runtime.run_sandbox(SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid))
    container = ContainerSpec(
        name="c", argv=("python3", "-c", DEFIANT, how, mark), env=ENV, log_path=str(log), **fields
    )
    await runtime.start_container(uid, container)
    async with asyncio.timeout(20):
        while not (log.exists() and log.read_text().count(" up") == 2):
            await asyncio.sleep(0.02)
    (state,) = [state for state in await runtime.list() if state.uid == uid]
    os.kill(state.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while any(state.alive for state in await runtime.list() if state.uid == uid):
            await asyncio.sleep(0.02)
    return running(mark)


async def main(home: Path, pods: int) -> None:
    """Run all and print the result."""
    runtime = Runtime(RuntimePaths.under(home))
    result: dict[str, Any] = {}
    try:
        await runtime.start()
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> int:
            async with turn:
                return await early(runtime, home, number)

        result["starts"] = await asyncio.gather(*(one(number) for number in range(pods)))
        ways: dict[str, dict[str, int]] = {"cleared": {}, "namespace": {"uid": 1000, "gid": 1000}}
        if os.geteuid() == 0:  # others have one uid only, whatever its number in a pod
            ways["setuid"] = {}
        living = [await defiant(runtime, home, way, **fields) for way, fields in ways.items()]
        result["outlived their shim"] = [pid for pids in living for pid in pids]
    finally:
        await runtime.stop_all()
    result["outlived the cluster"] = running(str(os.getpid()))
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
