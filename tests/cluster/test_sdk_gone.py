"""Waiting until a deleted object is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.cluster.api_world import World, config_map
from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS
from trainshed.sdk.errors import UserError
from trainshed.sdk.gone import wait_gone

SECONDS = 30.0


class Counting(Client):
    """Tells what it was asked; `watches` are granted or not."""

    def __init__(self, world: World, *, watches: bool = True) -> None:
        super().__init__(world.transport)
        self.asked: list[str] = []
        self.watching = asyncio.Event()
        self._watches = watches

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.append("get")
        return await super().get(*args, **kwargs)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        self.asked.append("watch")
        self.watching.set()
        if not self._watches:
            return refused()
        return super().watch(*args, **kwargs)


async def refused() -> AsyncGenerator[Any, None]:
    raise ApiError(403, "Forbidden", "may not watch")
    yield


async def held(world: World) -> None:
    """Delete an object that stays until `release`."""
    made = config_map("a")
    made["metadata"]["finalizers"] = ["example.org/hold"]
    await world.client.create(CONFIGMAPS, made, namespace="default")
    await world.client.delete(CONFIGMAPS, "a", "default")


async def release(world: World) -> None:
    await world.client.patch(CONFIGMAPS, "a", "default", {"metadata": {"finalizers": None}})


async def test_the_server_tells_when_an_object_is_gone(world: World) -> None:
    client = Counting(world)
    await held(world)
    async with asyncio.timeout(SECONDS):
        waiting = asyncio.create_task(wait_gone(client, CONFIGMAPS, "a", "default"))
        await client.watching.wait()
        other = config_map("b")
        await world.client.create(CONFIGMAPS, other, namespace="default")
        await world.client.delete(CONFIGMAPS, "b", "default")
        await world.client.patch(CONFIGMAPS, "a", "default", {"data": {"k": "v"}})
        assert not waiting.done()
        await release(world)
        await waiting
        await wait_gone(client, CONFIGMAPS, "a", "default")
    assert client.asked == ["get", "watch", "get"]


async def test_who_may_not_watch_asks_again(world: World) -> None:
    client = Counting(world, watches=False)
    await held(world)
    async with asyncio.timeout(SECONDS):
        waiting = asyncio.create_task(wait_gone(client, CONFIGMAPS, "a", "default"))
        await client.watching.wait()
        await release(world)
        await waiting
    assert client.asked[:2] == ["get", "watch"] and client.asked[-1] == "get"


async def test_an_object_that_does_not_go_is_named(world: World) -> None:
    await held(world)
    with pytest.raises(UserError, match=r"configmaps/a is still being deleted after 0\.2 s"):
        await wait_gone(world.client, CONFIGMAPS, "a", "default", seconds=0.2)
