"""The sandbox runtimes that behave alike: the model in memory, and the real one on this kernel, with namespaces and
with plain processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.runtime import MemoryRuntime
from trainshed.cluster.sandbox.api import (
    ContainerSpec,
    ContainerState,
    Mount,
    Runtime,
    RuntimePaths,
    RuntimeUnavailable,
    SandboxSpec,
    SandboxState,
    StartError,
)

DEADLINE = 20.0
_PROGRAM = """
trap 'exit 143' TERM
touch /told/$1-runs
until [ -e /told/$1 ]; do sleep 0.02; done
exit $(cat /told/$1)
"""
"""Says that it listens to SIGTERM, and runs until the test writes its exit code."""


class Boxes:
    """One runtime under test; the containers that it is given run until `finish`.

    `runtime` is any of them, which have no type in common; `runs` says whether a container listens to signals.
    """

    def __init__(
        self,
        runtime: Any,
        home: Path,
        *,
        runs: Callable[[str], bool],
        finish: Callable[[str, str, int, int], None],
    ) -> None:
        self.runtime = runtime
        self.network = "127." if getattr(runtime, "isolation", "") == "plain" else "10.88."
        """How addresses of pods begin."""
        self._runs = runs
        self._finish = finish
        self._home = home
        self._ends: list[tuple[str, ContainerState]] = []
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async for end in self.runtime.events():
            self._ends.append(end)
            self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def pod(self, uid: str, **fields: Any) -> SandboxState:
        """Make a sandbox."""
        spec = SandboxSpec(**{"uid": uid, "namespace": "default", "name": uid, "hostname": uid, **fields})
        state: SandboxState = await self.runtime.run_sandbox(spec)
        return state

    async def start(
        self, uid: str, name: str = "c", attempt: int = 0, *, missing: bool = False
    ) -> ContainerState:
        """Start a container that runs until `finish`; a `missing` one has no program."""
        program = ("sh", "-c", _PROGRAM, "sh", _word(uid, name, attempt))
        spec = ContainerSpec(
            name=name,
            attempt=attempt,
            argv=("no-such-program",) if missing else program,
            env=(("PATH", "/usr/local/bin:/usr/bin:/bin"),),
            log_path=str(self._home / f"{uid}.log"),
            mounts=(Mount(str(self._home), "/told"),),
        )
        state: ContainerState = await self.runtime.start_container(uid, spec)
        deadline = time.monotonic() + DEADLINE
        while not self._runs(_word(uid, name, attempt)):
            assert time.monotonic() < deadline, f"waited in vain for {uid}/{name} to run"
            await asyncio.sleep(0.01)
        return state

    def finish(self, uid: str, code: int, name: str = "c", attempt: int = 0) -> None:
        """Let a container end with this code."""
        self._finish(uid, name, attempt, code)

    async def end(self, uid: str, name: str = "c", attempt: int = 0) -> ContainerState:
        """Return the reported end of a container; fails after a deadline."""
        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    for where, state in self._ends:
                        if (where, state.name, state.attempt) == (uid, name, attempt):
                            return state
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited in vain for the end of {uid}/{name}, got {self._ends}") from None

    async def state(self, uid: str) -> SandboxState | None:
        """Return a sandbox as the list has it."""
        found = [state for state in await self.runtime.list() if state.uid == uid]
        assert len(found) <= 1, found
        return found[0] if found else None


def _word(uid: str, name: str, attempt: int) -> str:
    return f"{uid}-{name}-{attempt}"


@pytest.fixture(params=["model", "kernel", "plain"])
async def boxes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Boxes]:
    """A runtime without sandboxes."""
    if request.param == "model":
        model = MemoryRuntime()
        model.fail_start["missing"] = StartError(
            127, 'exec: "no-such-program": executable file not found in $PATH'
        )

        def end(uid: str, name: str, attempt: int, code: int) -> None:
            model.end(uid, name, code)

        one = Boxes(model, tmp_path, runs=lambda word: True, finish=end)
        yield one
        await one.close()
        return
    home, told = tmp_path / "state", tmp_path / "told"
    for directory in (home, told):
        directory.mkdir(mode=0o700)
    runtime = Runtime(RuntimePaths.under(home), "plain" if request.param == "plain" else "namespaces")
    try:
        await runtime.start()
    except RuntimeUnavailable as reason:
        pytest.skip(f"no sandboxes here: {reason}; {reason.remedy}")

    def write(uid: str, name: str, attempt: int, code: int) -> None:
        ready = told / "ready"
        ready.write_text(str(code))
        ready.rename(told / _word(uid, name, attempt))

    one = Boxes(runtime, told, runs=lambda word: (told / f"{word}-runs").exists(), finish=write)
    try:
        yield one
    finally:
        await one.close()
        await runtime.stop_all()
