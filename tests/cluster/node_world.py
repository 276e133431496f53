"""A world for the node agent: a sandbox runtime in memory and the API model with what a kubelet needs.

The runtime records what it was told; a test ends containers by hand. It keeps sandboxes when the agent goes,
as the real one does.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.fakes.api import FakeApi
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.node.machine import Machine, NodeOptions
from trainshed.cluster.node.node import Node
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.sandbox.model import (
    ContainerSpec,
    ContainerState,
    DnsRecords,
    SandboxNotFound,
    SandboxSpec,
    SandboxState,
    StartError,
)
from trainshed.kube.meta.objects import Object

NODE = "node-a"
WAIT_SECONDS = 5.0


class KubeApi(FakeApi):
    """Notes what is written to statuses; plays the scheduler and the user."""

    def __init__(self) -> None:
        super().__init__()
        self.status_patches: list[tuple[str, Object]] = []

    async def _handle(
        self, method: str, path: str, query: dict[str, str], body: bytes | None, *rest: str
    ) -> Any:
        answer = await super()._handle(method, path, query, body, *rest)
        if method == "PATCH" and path.endswith("/status") and body:
            self.status_patches.append((answer["metadata"]["name"], msgspec.json.decode(body)["status"]))
        return answer

    def pod(self, name: str) -> Object | None:
        return self.objects.get(f"/api/v1/namespaces/default/pods/{name}")

    def status(self, name: str) -> Object:
        pod = self.pod(name)
        return {} if pod is None else pod.get("status") or {}

    def reasons(self) -> list[str]:
        return [obj["reason"] for path, obj in self.objects.items() if "/events/" in path]

    async def apply_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await self.put(
            f"/api/v1/namespaces/default/pods/{metadata['name']}",
            apiVersion="v1", kind="Pod", spec={"nodeName": NODE, **pod["spec"]}, metadata=metadata,
        )  # fmt: skip

    async def delete_pod(self, name: str, grace: int) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + grace))
        await self.put(
            f"/api/v1/namespaces/default/pods/{name}",
            metadata={"deletionTimestamp": stamp, "deletionGracePeriodSeconds": grace},
        )


class MemoryRuntime:
    """Sandboxes that are only noted.

    `ignores_term`: containers that need SIGKILL. `list_seconds`: how long `list` takes.
    """

    def __init__(self) -> None:
        self.sandboxes: dict[str, SandboxState] = {}
        self.specs: dict[tuple[str, str, int], ContainerSpec] = {}
        self.sandbox_specs: dict[str, SandboxSpec] = {}
        self.signals: list[tuple[str, int]] = []
        self.records: list[DnsRecords] = []
        self.fail_start: dict[str, StartError] = {}
        self.ignores_term: set[str] = set()
        self.list_seconds = 0.0
        self._queue: asyncio.Queue[tuple[str, ContainerState]] = asyncio.Queue()

    async def start(self) -> None:
        """Nothing has died."""

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxState:
        old = self.sandboxes.get(spec.uid)
        assert old is None or not old.alive, "one sandbox per pod"
        ip = f"10.88.0.{10 + len(self.sandbox_specs)}"
        self.sandbox_specs[spec.uid] = spec
        state = SandboxState(spec.uid, spec.namespace, spec.name, ip, 1, old.containers if old else ())
        self.sandboxes[spec.uid] = state
        return state

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        await asyncio.sleep(0)
        assert (uid, spec.name, spec.attempt) not in self.specs, "no attempt runs twice"
        if spec.name in self.fail_start:
            raise self.fail_start[spec.name]
        self.specs[uid, spec.name, spec.attempt] = spec
        state = ContainerState(spec.name, spec.attempt, 1, time.time())
        self._set(uid, state)
        return state

    async def signal_container(self, uid: str, name: str, signal: int) -> None:
        self.signals.append((name, signal))
        newest = next((c for c in self.sandboxes[uid].containers if c.name == name), None)
        if newest is None or newest.finished_at is not None:
            raise SandboxNotFound(name)
        if signal == 9 or name not in self.ignores_term:
            self.end(uid, name, 128 + signal)

    async def stop_sandbox(self, uid: str) -> None:
        if uid in self.sandboxes:
            self.sandboxes[uid] = msgspec.structs.replace(self.sandboxes[uid], alive=False, pid=0)

    async def remove_sandbox(self, uid: str) -> None:
        self.sandboxes.pop(uid, None)

    async def remove_tree(self, path: Path) -> None:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    async def list(self) -> list[SandboxState]:
        await asyncio.sleep(self.list_seconds)
        return list(self.sandboxes.values())

    async def set_records(self, records: DnsRecords) -> None:
        self.records.append(records)

    async def events(self) -> AsyncIterator[tuple[str, ContainerState]]:
        while True:
            yield await self._queue.get()

    def end(self, uid: str, name: str, code: int, *, quietly: bool = False) -> None:
        """End the newest attempt of a container; `quietly` while nobody listens."""
        newest = next(c for c in self.sandboxes[uid].containers if c.name == name)
        state = msgspec.structs.replace(newest, finished_at=time.time(), exit_code=code, pid=None)
        self._set(uid, state)
        if not quietly:
            self._queue.put_nowait((uid, state))

    def repeat(self, uid: str, name: str, attempt: int) -> None:
        """Report the end of an attempt once more: every end is reported at least once."""
        state = next(c for c in self.sandboxes[uid].containers if (c.name, c.attempt) == (name, attempt))
        self._queue.put_nowait((uid, state))

    def _set(self, uid: str, state: ContainerState) -> None:
        sandbox = self.sandboxes[uid]
        others = [c for c in sandbox.containers if (c.name, c.attempt) != (state.name, state.attempt)]
        self.sandboxes[uid] = msgspec.structs.replace(sandbox, containers=(state, *others))


class World:
    """The API, the runtime, and a machine that can be restarted."""

    def __init__(self, home: Any, runtime: Any = None) -> None:
        self.api = KubeApi()
        self.runtime = runtime or MemoryRuntime()
        self.paths = NodePaths(home)

    @asynccontextmanager
    async def node(self, **options: Any) -> AsyncIterator[Node]:
        """Run a machine with one node."""
        async with self.machine({NODE: NodeOptions(**options)}) as nodes:
            yield nodes[0]

    @asynccontextmanager
    async def machine(self, options: dict[str, NodeOptions]) -> AsyncIterator[list[Node]]:
        """Run a machine with these nodes."""
        client = Client(self.api)
        informers = SharedInformers(client)
        machine = Machine(client, self.runtime, informers, self.paths)
        nodes = [machine.add(name, options[name]) for name in options]

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(informers.run())
                tasks.create_task(machine.run())

        task = asyncio.create_task(run())
        try:
            await self.until(machine.ready.is_set, "the nodes are ready", task)
            yield nodes
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, true: Callable[[], Any], what: str, task: asyncio.Task[Any] | None = None) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not true():
            if task is not None and task.done():
                task.result()
            assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for: {what}"
            await asyncio.sleep(0.002)

    async def until_phase(self, name: str, phase: str) -> Object:
        await self.until(lambda: self.api.status(name).get("phase") == phase, f"{name} is {phase}")
        return self.api.status(name)
