"""One informer per resource, shared by the control plane's own controllers."""

from __future__ import annotations

import asyncio
from typing import Any

from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.kube.resources import Object, Resource


def key_of(obj: Object | dict[str, Any]) -> tuple[str, str]:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class SharedInformers:
    """Hands out informers before `run`, then keeps them all up to date."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[Resource, Informer] = {}

    def of(self, resource: Resource) -> Informer:
        """Return the informer of a resource over all namespaces. Call before `run`."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._informers[resource] = Informer(self._client, resource)
        return informer

    async def wait_synced(self) -> None:
        """Return when every informer holds a full list."""
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers.values()))

    async def run(self) -> None:
        """Keep every informer running until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
