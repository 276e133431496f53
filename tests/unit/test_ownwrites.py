"""A key waits until the mirrors show what was last written for it, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.api import FakeApi
from tests.fakes.training import LaggingTransport
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.controllers.ownwrites import PATIENCE_SECONDS, OwnWrites
from trainshed.client.informer import Informer, Key, key_of
from trainshed.kube.meta.objects import uid_of
from trainshed.kube.meta.resources import PODS, SERVICES

LAG = 5.0
KEY = ("ns", "owner")


def make_pod(name: str, **metadata: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {}}


class World:
    """An API whose watches are behind, and one key's writes."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.client = Client(self.api)
        self.pods = Informer(Client(LaggingTransport(self.api, {"pods": LAG})), PODS)
        self.own: OwnWrites[Key] = OwnWrites()

    async def shown_after(self) -> float:
        """Return how many seconds the key waits."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while (wait := self.own.wait(KEY)) is not None:
            assert 0 < wait <= 1.0
            await asyncio.sleep(0.1)
        return loop.time() - start


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    started = World()
    mirror = asyncio.create_task(started.pods.run())
    await started.pods.wait_synced()
    await asyncio.sleep(0.1)
    try:
        yield started
    finally:
        mirror.cancel()
        await asyncio.gather(mirror, return_exceptions=True)


def about(seconds: float) -> Any:
    class About:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, float) and seconds - 0.2 <= other <= seconds + 0.2

        def __repr__(self) -> str:
            return f"about {seconds}"

    return About()


def test_a_key_without_writes_does_not_wait() -> None:
    async def main() -> None:
        async with world() as w:
            assert w.own.wait(KEY) is None

    run_virtual(main())


def test_a_created_object_and_each_change_of_it_are_waited_for() -> None:
    async def main() -> None:
        async with world() as w:
            created = await w.client.create(PODS, make_pod("a"))
            w.own.wrote(KEY, w.pods, created)
            assert w.own.wait(("ns", "other")) is None
            assert await w.shown_after() == about(LAG)
            assert w.pods.get("ns", "a") is not None
            patched = await w.client.patch(PODS, "a", "ns", {"spec": {"x": 1}})
            w.own.wrote(KEY, w.pods, created)
            w.own.wrote(KEY, w.pods, patched)
            w.own.wrote(KEY, w.pods, created)  # an older answer does not shorten the wait
            assert await w.shown_after() == about(LAG)
            assert (w.pods.get("ns", "a") or {})["spec"] == {"x": 1}

    run_virtual(main())


def test_an_object_that_came_and_went_holds_nothing_up() -> None:
    async def main() -> None:
        async with world() as w:
            created = await w.client.create(PODS, make_pod("a"))
            await w.client.delete(PODS, "a", "ns")
            w.own.wrote(KEY, w.pods, created)
            assert await w.shown_after() == about(LAG)

    run_virtual(main())


def test_a_deleted_object_is_waited_for_until_it_is_gone_ending_or_another() -> None:
    async def main() -> None:
        async with world() as w:
            for name, status in (("gone", {}), ("ending", {"phase": "Running"}), ("another", {})):
                path = f"/api/v1/namespaces/ns/pods/{name}"
                obj = await w.api.put(path, status=status)
                await asyncio.sleep(LAG + 1)
                assert w.pods.get("ns", name) is not None
                await w.client.delete(PODS, name, "ns", uid=uid_of(obj))
                if name == "another":
                    await w.api.put(path, status=status)
                w.own.deleting(KEY, w.pods, "ns", name, uid_of(obj))
                assert await w.shown_after() == about(LAG), name

    run_virtual(main())


def test_an_answer_without_a_version_is_no_reason_to_wait() -> None:
    async def main() -> None:
        async with world() as w:
            w.own.wrote(KEY, w.pods, {"kind": "Status", "metadata": {}})
            w.own.wrote(KEY, w.pods, {"metadata": {"resourceVersion": "opaque"}})
            assert w.own.wait(KEY) is None

    run_virtual(main())


def test_what_never_shows_is_given_up() -> None:
    async def main() -> None:
        async with world() as w:
            w.own.wrote(KEY, w.pods, {"metadata": {"resourceVersion": "999999"}})
            assert await w.shown_after() == about(PATIENCE_SECONDS)
            alive = await w.client.create(PODS, make_pod("a"))
            await asyncio.sleep(LAG + 1)
            w.own.deleting(KEY, w.pods, "ns", "a", uid_of(alive))
            assert await w.shown_after() == about(PATIENCE_SECONDS)

    run_virtual(main())


class OnePod(Controller[Key]):
    """Makes a pod with a new name for each service that has none: what a stale mirror would make twice."""

    def __init__(self, client: Client, informers: SharedInformers, services: Informer) -> None:
        super().__init__("one-pod", informers)
        self._client = client
        self.services = self.watch(services, lambda service: [key_of(service)])
        self.pods = self.watch(informers.of(PODS), lambda pod: [("ns", pod["spec"]["owner"])])
        self.made = 0

    async def reconcile(self, key: Key) -> float | None:
        if all(pod["spec"]["owner"] != key[1] for pod in self.pods.items()):
            self.made += 1
            pod = {"metadata": {"name": f"pod-{self.made}", "namespace": "ns"}, "spec": {"owner": key[1]}}
            self.own.wrote(key, self.pods, await self._client.create(PODS, pod))
        return None


def test_a_controller_does_not_decide_on_a_mirror_from_before_its_own_writes() -> None:
    async def main() -> None:
        api = FakeApi()
        client = Client(LaggingTransport(api, {"pods": LAG}))
        informers = SharedInformers(client)
        controller = OnePod(client, informers, informers.of(SERVICES))
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(controller.run())]
        await controller.wait_synced()
        for number in range(10):  # changes of the service bring the key back while the pod is not shown yet
            await api.put("/api/v1/namespaces/ns/services/web", spec={"number": number})
            await asyncio.sleep(0.2)
        await asyncio.sleep(2 * LAG)
        assert controller.made == 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
