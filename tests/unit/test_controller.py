"""The base of the controllers: which changes lead to a reconcile, and when; what a client logs of its answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.informer import Informer, Key, key_of
from trainshed.client.transport import Response
from trainshed.kube.meta.resources import core
from trainshed.kube.wire.request import Request

THINGS = core("things", "Thing")
BASE = "/api/v1/namespaces/ns/things"


class Noting(Controller[Key]):
    """Notes when it reconciles what."""

    def __init__(self) -> None:
        super().__init__("noting")
        self.turns: list[tuple[float, str]] = []

    async def reconcile(self, key: Key) -> float | None:
        self.turns.append((round(asyncio.get_running_loop().time(), 3), key[1]))
        return None


def test_modifications_are_gathered_and_what_is_new_or_gone_is_not() -> None:
    async def main() -> None:
        api = FakeApi()
        informer = Informer(Client(api), THINGS)
        controller = Noting()
        controller.watch(informer, lambda thing: [key_of(thing)], gather_seconds=0.5)
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(controller.run())]
        async with asyncio.timeout(60):
            await informer.wait_synced()
        began = asyncio.get_running_loop().time()

        async def turns(number: int) -> list[tuple[float, str]]:
            async with asyncio.timeout(60):
                while len(controller.turns) < number:
                    await asyncio.sleep(0.001)
            return [(round(at - began, 1), name) for at, name in controller.turns]

        await api.put(f"{BASE}/a", value=0)
        assert await turns(1) == [(0.0, "a")], "what is new is not kept waiting"
        for value in range(1, 5):
            await api.put(f"{BASE}/a", value=value)
            await asyncio.sleep(0.05)
        assert (await turns(2))[1:] == [(0.5, "a")], (
            "four modifications are one turn, half a second after the first"
        )
        await api.remove(f"{BASE}/a")
        assert (await turns(3))[2:] == [(0.5, "a")], "neither is what is gone"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())


class Warned:
    """Answers each request with two warnings."""

    async def request(self, request: Request) -> Response:
        return Response(200, {}, b"{}", ('299 - "old"', f'299 - "{request.path}"'))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


def test_each_warning_of_a_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        client = Client(Warned())
        for name in ("a", "b", "a"):
            await client.get(THINGS, name, "ns")

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert [vars(record)["warning"] for record in caplog.records] == ["old", f"{BASE}/a", f"{BASE}/b"]


def test_a_modification_that_leaves_what_is_regarded_the_same_is_passed_over() -> None:
    async def main() -> None:
        api = FakeApi()
        informer = Informer(Client(api), THINGS)
        controller = Noting()
        controller.watch(informer, lambda thing: [key_of(thing)], regards=lambda thing: thing.get("value"))
        seen: list[str] = []
        informer.add_handler(lambda change, old, new: seen.append(change))
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(controller.run())]

        async def turns_after(*changes: str) -> int:
            """Return how many turns there were once the controller has had the time for one."""
            async with asyncio.timeout(60):
                while tuple(seen) != changes:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(1)
            return len(controller.turns)

        async with asyncio.timeout(60):
            await informer.wait_synced()
        await api.put(f"{BASE}/a", value=0, other=0)
        assert await turns_after("ADDED") == 1
        await api.put(f"{BASE}/a", value=0, other=1)
        assert await turns_after("ADDED", "MODIFIED") == 1, "nothing that is regarded has changed"
        await api.put(f"{BASE}/a", value=1, other=1)
        assert await turns_after("ADDED", "MODIFIED", "MODIFIED") == 2
        await api.remove(f"{BASE}/a")
        assert await turns_after("ADDED", "MODIFIED", "MODIFIED", "DELETED") == 3, (
            "that it is gone is no modification"
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
