"""One informer per resource and selector, shared by all controllers of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import TypeAlias

from trainshed.client.client import Client
from trainshed.client.informer import Index, Informer
from trainshed.kube.meta.ownership import controller_group
from trainshed.kube.meta.resources import Resource

_Selection: TypeAlias = tuple[Resource, str, str]
"""Resource, label selector, field selector."""


class SharedInformers:
    """Hands out informers before `run`, then keeps them all up to date.

    `namespace` restricts the mirrors of namespaced resources; empty means all namespaces. Objects of the resources in
    `compact` take little room, at the price of decoding those that were not used for long.
    """

    def __init__(self, client: Client, namespace: str = "", *, compact: Container[Resource] = ()) -> None:
        self._client = client
        self._namespace = namespace
        self._compact = compact
        self._informers: dict[_Selection, Informer] = {}
        self._by_controller: dict[Resource, Index] = {}

    def of(self, resource: Resource, *, label_selector: str = "", field_selector: str = "") -> Informer:
        """Return the informer of what the selectors match. Call before `run`."""
        selection = (resource, label_selector, field_selector)
        informer = self._informers.get(selection)
        if informer is None:
            informer = self._informers[selection] = Informer(
                self._client,
                resource,
                namespace=(self._namespace or None) if resource.namespaced else None,
                label_selector=label_selector,
                field_selector=field_selector,
                compact=resource in self._compact,
            )
        return informer

    def by_controller(self, resource: Resource) -> Index:
        """Return the resource's objects by `ownership.controller_group`, shared too."""
        index = self._by_controller.get(resource)
        if index is None:
            index = self._by_controller[resource] = self.of(resource).index(controller_group)
        return index

    @property
    def synced(self) -> bool:
        """Whether every informer holds a first list."""
        return all(informer.synced for informer in self._informers.values())

    async def wait_synced(self) -> None:
        """Return when every informer holds a full list. Controllers wait for it: absence means nothing before."""
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers.values()))

    async def run(self) -> None:
        """Keep every informer running until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())
