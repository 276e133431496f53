"""Decisions are carried out: bindings wait for no explanation, and of a pod one thing is written at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.cluster.scheduler.binding import EXPLAINING, BindingCycle
from trainshed.cluster.scheduler.placement import bound, waits
from trainshed.kube.meta.objects import Object


def pod(name: str) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}}


class World:
    """An API that notes what begins and ends, and lets explanations take as long as `slow` is set."""

    def __init__(self, *names: str) -> None:
        self.pods = {("ns", name): pod(name) for name in names}
        self.told: list[str] = []
        self.go_on = asyncio.Event()
        self.cycle = BindingCycle(
            cast("Client", self),
            cast("Informer", self),
            cast("EventRecorder", self),
            failed=lambda uid: self.told.append(f"failed {uid}"),
            again=lambda pod, seconds: None,
        )

    def get(self, namespace: str, name: str) -> Object | None:
        return self.pods.get((namespace, name))

    async def patch(self, resource: object, name: str, namespace: str, patch: Any, **options: Any) -> None:
        self.told.append(f"explain {name}")
        await self.go_on.wait()
        self.told.append(f"explained {name}")

    async def bind(self, name: str, namespace: str, node: str) -> None:
        self.told.append(f"bind {name}")

    def event(self, *said: object) -> None:
        pass

    def wait(self, name: str) -> None:
        obj = self.pods["ns", name]
        self.cycle.start(obj, waits(obj, "no room", 0.0))

    def place(self, name: str) -> None:
        obj = self.pods["ns", name]
        self.cycle.start(obj, bound(obj, "node"))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.cycle.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_a_pod_that_has_a_node_does_not_wait_for_what_others_are_told() -> None:
    async def main() -> None:
        world = World(*(f"p{number}" for number in range(20)), "placed")
        for number in range(20):
            world.wait(f"p{number}")
        world.place("placed")
        async with world.running():
            await asyncio.sleep(1)
            assert world.told.count("bind placed") == 1
            assert len([told for told in world.told if told.startswith("explain ")]) == EXPLAINING
            world.go_on.set()
            await asyncio.sleep(1)
            assert len([told for told in world.told if told.startswith("explained ")]) == 20

    run_virtual(main())


def test_a_binding_comes_after_an_explanation_of_the_pod_that_is_being_written() -> None:
    async def main() -> None:
        world = World("a", "b")
        async with world.running():
            world.wait("a")
            await asyncio.sleep(1)
            world.place("a")
            world.place("b")
            await asyncio.sleep(1)
            assert world.told == ["explain a", "bind b"]
            world.go_on.set()
            await asyncio.sleep(1)
            assert world.told == ["explain a", "bind b", "explained a", "bind a"]

    run_virtual(main())


def test_an_explanation_that_a_binding_has_overtaken_is_not_written() -> None:
    async def main() -> None:
        world = World(*(f"p{number}" for number in range(EXPLAINING)), "late")
        async with world.running():
            for number in range(EXPLAINING):
                world.wait(f"p{number}")
            world.wait("late")
            await asyncio.sleep(1)
            world.place("late")
            world.go_on.set()
            await asyncio.sleep(1)
            assert [told for told in world.told if "late" in told] == ["bind late"]

    run_virtual(main())
