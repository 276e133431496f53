"""One informer per resource, shared by the control plane's own controllers."""

from __future__ import annotations

import asyncio
from typing import Any

from trainshed.client.client import Client
from trainshed.client.informer import Index, Informer
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import controller_group
from trainshed.kube.meta.resources import Resource


def key_of(obj: Object | dict[str, Any]) -> tuple[str, str]:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class SharedInformers:
    """Hands out informers before `run`, then keeps them all up to date."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[Resource, Informer] = {}
        self._by_controller: dict[Resource, Index] = {}

    def of(self, resource: Resource) -> Informer:
        """Return the informer of a resource over all namespaces. Call before `run`."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._informers[resource] = Informer(self._client, resource)
        return informer

    def by_controller(self, resource: Resource) -> Index:
        """Return the resource's objects by `ownership.controller_group`, shared too."""
        index = self._by_controller.get(resource)
        if index is None:
            index = self._by_controller[resource] = self.of(resource).index(controller_group)
        return index

    async def wait_synced(self) -> None:
        """Return when every informer holds a full list. Controllers wait for it: absence means nothing before."""
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers.values()))

    async def run(self) -> None:
        """Keep every informer running until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
