"""What the tests of the sandbox runtime share: one runtime, short calls, waits with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from trainshed.cluster.sandbox.api import (
    ContainerSpec,
    ContainerState,
    ExecSpec,
    Runtime,
    SandboxSpec,
    SandboxState,
)

DEADLINE = 20.0
PATH = ("PATH", "/usr/local/bin:/usr/bin:/bin")


class Sandboxes:
    """A started runtime whose ends of containers are collected."""

    def __init__(self, runtime: Runtime, home: Path) -> None:
        self.runtime = runtime
        self.home = home
        self.ends: dict[tuple[str, str, int], ContainerState] = {}
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async for uid, state in self.runtime.events():
            self.ends[uid, state.name, state.attempt] = state
            self._changed.set()

    async def close(self) -> None:
        """Stop everything."""
        self._task.cancel()
        await self.runtime.stop_all()

    def log(self, uid: str) -> Path:
        """Where the log of the pod's container goes."""
        return self.home / f"{uid}.log"

    def output(self, uid: str) -> str:
        """Return what the pod's container printed, without the log format."""
        return log_text(self.log(uid))

    async def printed(self, uid: str, text: str) -> None:
        """Wait until the pod's container has printed this, and nothing else."""

        async def is_there() -> bool:
            return self.output(uid) == text

        await until(f"{uid} to print {text!r}", is_there)

    async def pod(self, uid: str, /, **fields: Any) -> SandboxState:
        """Make a sandbox."""
        fields = {"namespace": "default", "name": uid, "hostname": uid, **fields}
        return await self.runtime.run_sandbox(SandboxSpec(uid=uid, **fields))

    async def start(self, uid: str, /, *argv: str, **fields: Any) -> ContainerState:
        """Start container `c`."""
        fields = {"name": "c", "env": (PATH,), "log_path": str(self.log(uid)), **fields}
        return await self.runtime.start_container(uid, ContainerSpec(argv=argv, **fields))

    async def end(self, uid: str, name: str = "c", attempt: int = 0) -> ContainerState:
        """Wait for the end of a container."""
        async with within(f"the end of {uid}/{name}"):
            while (uid, name, attempt) not in self.ends:
                self._changed.clear()
                await self._changed.wait()
        return self.ends[uid, name, attempt]

    async def run(self, uid: str, /, *argv: str, **fields: Any) -> tuple[ContainerState, str]:
        """Make a sandbox, run a command to its end and return its state and output."""
        await self.pod(uid)
        await self.start(uid, *argv, **fields)
        return await self.end(uid), self.output(uid)

    async def exec(self, uid: str, *argv: str, stdin: bytes = b"", tty: bool = False) -> tuple[int, bytes]:
        """Run a command inside the pod's container; return its exit code and output of both streams."""
        session = await self.runtime.exec(uid, ExecSpec(container="c", argv=argv, stdin=bool(stdin), tty=tty))
        if stdin:
            await session.write_stdin(stdin)
            await session.close_stdin()
        async with within(f"the output of {argv}"):
            output = b"".join([data async for _, data in session.output()])
            code = await session.wait()
        await session.close()
        return code, output


class within:
    """An `asyncio.timeout` that says what it waited for."""

    def __init__(self, what: str, seconds: float = DEADLINE) -> None:
        self._what = what
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {self._what}") from None


async def until(what: str, check: Callable[[], Awaitable[bool]]) -> None:
    """Poll until `check` is true."""
    async with within(what):
        while not await check():
            await asyncio.sleep(0.02)


def log_text(path: Path) -> str:
    """Return the text of a CRI log file and its rotated predecessors."""
    text = ""
    for name in [*(f"{path}.{number}" for number in (4, 3, 2, 1)), str(path)]:
        if not Path(name).exists():
            continue
        for line in Path(name).read_text().splitlines():
            _, _, tag, rest = line.split(" ", 3)
            text += rest + ("\n" if tag == "F" else "")
    return text
