"""A program: a pod makes processes until it gets no more, and another pod is made beside it.

`python fork_bomb.py HOME LIMIT`, as an ordinary user, who then may have LIMIT processes. Prints what became of the
other pod. It needs the package only, so that it can be given to another user as a string.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from trainshed.cluster.sandbox.api import ContainerSpec, Runtime, RuntimePaths, SandboxSpec

ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
BOMB = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
except OSError as error:
    print("stopped:", error.strerror, flush=True)
time.sleep(1000)
"""


async def start(runtime: Runtime, home: Path, uid: str, *argv: str) -> Path:
    await runtime.run_sandbox(SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid))
    log = home / f"{uid}.log"
    await runtime.start_container(uid, ContainerSpec(name="c", argv=argv, env=ENV, log_path=str(log)))
    return log


async def said(log: Path, word: str) -> None:
    async with asyncio.timeout(60):
        while not (log.exists() and word in log.read_text()):
            await asyncio.sleep(0.02)


async def main(home: Path, limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    runtime = Runtime(RuntimePaths.under(home))
    try:
        await runtime.start()
        await said(await start(runtime, home, "bomb", "python3", "-c", BOMB), "stopped:")
        await said(await start(runtime, home, "other", "echo", "the other pod runs"), "runs")
        await runtime.stop_sandbox("bomb")
        print("the other pod ran, and the first was stopped")
    finally:
        await runtime.stop_all()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
