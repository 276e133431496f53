"""A model of the sandbox runtime: it records what it was told, and a test ends containers by hand.

It keeps sandboxes when the agent goes, as the real one does; `tests/conformance/runtime` runs on both.
"""

from __future__ import annotations

import asyncio
import shutil
import signal as signals
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox.model import (
    Amounts,
    ContainerSpec,
    ContainerState,
    DnsRecords,
    Place,
    Route,
    SandboxNotFound,
    SandboxSpec,
    SandboxState,
    StartError,
)

_PID = 1


class MemoryRuntime:
    """Sandboxes that are only noted.

    `fail_start`: containers that cannot be started. `ignores_term`: containers that need SIGKILL.
    `list_seconds`: how long `list` takes.
    """

    def __init__(self) -> None:
        self.sandboxes: dict[str, SandboxState] = {}
        self.specs: dict[tuple[str, str, int], ContainerSpec] = {}
        self.sandbox_specs: dict[str, SandboxSpec] = {}
        self.shares: dict[str, int] = {}
        self.resized: list[tuple[str, Amounts]] = []
        self.fail_resize: list[OSError] = []
        self.signals: list[tuple[str, int]] = []
        self.records: list[DnsRecords] = []
        self.routes: list[tuple[Route, ...]] = []
        self.taken_ports: set[Place] = set()
        self.fail_start: dict[str, StartError | OSError] = {}
        self.ignores_term: set[str] = set()
        self.list_seconds = 0.0
        self.handed: list[tuple[list[tuple[str, bool]], int, bool]] = []
        self.sizes: dict[str, int] = {}
        """Bytes on disk by path."""
        self.repeated: list[str] = []
        """What was asked for although it was there: living sandboxes and known attempts."""
        self._queue: asyncio.Queue[tuple[str, ContainerState]] = asyncio.Queue()

    async def start(self) -> None:
        """Nothing has died."""

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxState:
        old = self.sandboxes.get(spec.uid)
        if old is not None and old.alive:
            self.repeated.append(spec.uid)
            return old
        ip = "" if spec.host_network else f"10.88.0.{10 + len(self.sandbox_specs)}"
        self.sandbox_specs[spec.uid] = spec
        state = SandboxState(spec.uid, spec.namespace, spec.name, ip, _PID, old.containers if old else ())
        self.sandboxes[spec.uid] = state
        return state

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        await asyncio.sleep(0)
        sandbox = self._alive(uid)
        for known in sandbox.containers:
            if (known.name, known.attempt) == (spec.name, spec.attempt):
                self.repeated.append(f"{uid}/{spec.name}/{spec.attempt}")
                return known
        if spec.name in self.fail_start:
            raise self.fail_start[spec.name]
        self.specs[uid, spec.name, spec.attempt] = spec
        amounts = Amounts(spec.memory_limit, spec.cpu_limit, spec.cpu_request)
        state = ContainerState(spec.name, spec.attempt, _PID, time.time(), amounts=amounts)
        self._set(uid, state)
        return state

    async def share_cpu(self, uid: str, largest: int) -> None:
        self.shares[uid] = largest

    async def resize_container(self, uid: str, name: str, amounts: Amounts, cpus: Sequence[int]) -> None:
        newest = next((c for c in self._alive(uid).containers if c.name == name), None)
        if newest is None or newest.finished_at is not None:
            raise SandboxNotFound(name)
        if self.fail_resize:
            raise self.fail_resize.pop()
        self._set(uid, msgspec.structs.replace(newest, amounts=amounts))
        self.resized.append((name, amounts))

    async def signal_container(self, uid: str, name: str, signal: int) -> None:
        self.signals.append((name, signal))
        newest = next((c for c in self._alive(uid).containers if c.name == name), None)
        if newest is None or newest.finished_at is not None:
            raise SandboxNotFound(name)
        if signal == signals.SIGKILL:
            self.end(uid, name, 128 + signal, signal=signal)
        elif name not in self.ignores_term:
            self.end(uid, name, 128 + signal)

    async def stop_sandbox(self, uid: str) -> None:
        if uid not in self.sandboxes or not self.sandboxes[uid].alive:
            return
        for state in self.sandboxes[uid].containers:
            if state.finished_at is None:
                self.end(uid, state.name, 128 + signals.SIGKILL, signal=signals.SIGKILL)
        self.sandboxes[uid] = msgspec.structs.replace(self.sandboxes[uid], alive=False, pid=0)

    async def remove_sandbox(self, uid: str) -> None:
        await self.stop_sandbox(uid)
        self.sandboxes.pop(uid, None)

    async def remove_tree(self, path: Path) -> None:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def hand_to_group(
        self, places: Sequence[tuple[str, bool]], gid: int, *, if_differs: bool = False
    ) -> None:
        self.handed.append((list(places), gid, if_differs))

    async def measure(self, paths: Sequence[str]) -> dict[str, int]:
        return {path: self.sizes.get(path, 0) for path in paths}

    async def list(self) -> list[SandboxState]:
        await asyncio.sleep(self.list_seconds)
        return list(self.sandboxes.values())

    async def set_records(self, records: DnsRecords) -> None:
        self.records.append(records)

    async def set_routes(self, routes: Sequence[Route]) -> dict[Place, str]:
        self.routes.append(tuple(routes))
        return {route.place: "Address already in use" for route in routes if route.place in self.taken_ports}

    async def events(self) -> AsyncIterator[tuple[str, ContainerState]]:
        while True:
            yield await self._queue.get()

    # What the world does.

    def end(
        self, uid: str, name: str, code: int, *, signal: int | None = None, quietly: bool = False
    ) -> None:
        """End the newest attempt of a container; `quietly` while nobody listens."""
        newest = next(c for c in self.sandboxes[uid].containers if c.name == name)
        state = msgspec.structs.replace(
            newest, finished_at=time.time(), exit_code=code, signal=signal, pid=None
        )
        self._set(uid, state)
        if not quietly:
            self._queue.put_nowait((uid, state))

    def repeat(self, uid: str, name: str, attempt: int) -> None:
        """Report the end of an attempt once more: every end is reported at least once."""
        state = next(c for c in self.sandboxes[uid].containers if (c.name, c.attempt) == (name, attempt))
        self._queue.put_nowait((uid, state))

    def _alive(self, uid: str) -> SandboxState:
        sandbox = self.sandboxes.get(uid)
        if sandbox is None or not sandbox.alive:
            raise SandboxNotFound(f"pod {uid} does not run")
        return sandbox

    def _set(self, uid: str, state: ContainerState) -> None:
        sandbox = self.sandboxes[uid]
        others = [c for c in sandbox.containers if (c.name, c.attempt) != (state.name, state.attempt)]
        self.sandboxes[uid] = msgspec.structs.replace(sandbox, containers=(state, *others))
