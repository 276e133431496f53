"""The APIs that answer alike: the model that the tests use in virtual time, and the server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.cluster.api_world import open_world
from tests.fakes.api import FakeApi
from trainshed.client.client import Client
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, NAMESPACES

RETAIN = 50
"""How many changes the server remembers: few, so that a test can have it forget some."""


class Api(msgspec.Struct):
    """One API under test. `forget` makes it forget the changes until now."""

    client: Client
    forget: Callable[[], Awaitable[None]]

    async def config_map(self, name: str, /, namespace: str = "default", **data: str) -> Object:
        """Create a ConfigMap."""
        return await self.client.create(CONFIGMAPS, config_map(name, namespace, **data))


def config_map(name: str, namespace: str = "default", **data: str) -> Object:
    """Return a ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, **spec: object) -> Object:
    """Return a pod of one container."""
    container = {"name": "main", "image": "train:1"}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


@pytest.fixture(params=["model", "server"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    """An API with the namespaces `default` and `other`."""
    if request.param == "model":
        model = FakeApi()

        async def forget() -> None:
            model.compact()

        one = Api(Client(model), forget)
        await one.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        yield one
        return
    async with open_world(tmp_path, retain=RETAIN) as world:

        async def write() -> None:
            for number in range(2 * RETAIN):
                await world.client.create(CONFIGMAPS, config_map(f"filler-{number}", "other"))

        await world.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        yield Api(world.client, write)
