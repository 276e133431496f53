"""A world for the node agent: the models of the runtime and of the API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.fakes.api import FakeApi
from tests.fakes.runtime import MemoryRuntime
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.node.machine import Machine, NodeOptions
from trainshed.cluster.node.node import Node
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.nodecontext import MachineOptions
from trainshed.kube.meta import errors
from trainshed.kube.meta.objects import Object

NODE = "node-a"
WAIT_SECONDS = 30.0


class KubeApi(FakeApi):
    """Notes what is written to statuses; plays the scheduler and the user.

    `conflicts` is how many of the next deletions are refused because of another write; `successor` is the uid of
    another object that has the name by the time of the next deletion, which no watch tells of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conflicts = 0
        self.successor = ""
        self.status_patches: list[tuple[str, Object]] = []

    async def _handle(
        self, method: str, path: str, query: dict[str, str], body: bytes | None, *rest: str
    ) -> Any:
        if method == "DELETE" and self.conflicts:
            self.conflicts -= 1
            raise errors.conflict("pods", "", path.rpartition("/")[2], "the object has been modified")
        if method == "DELETE" and self.successor:
            there = self.objects[path]
            self.objects[path] = {**there, "metadata": {**there["metadata"], "uid": self.successor}}
            self.successor = ""
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


class World:
    """The API, the runtime, and a machine that can be restarted."""

    def __init__(self, home: Any, runtime: Any = None, machine: MachineOptions | None = None) -> None:
        self.api = KubeApi()
        self.runtime = runtime or MemoryRuntime()
        self.paths = NodePaths(home)
        self.options = machine

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
        machine = Machine(client, self.runtime, informers, self.paths, options=self.options)
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
            if isinstance(self.runtime, MemoryRuntime):
                assert self.runtime.repeated == [], "one sandbox per pod, and no attempt runs twice"
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
