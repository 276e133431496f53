"""What a cluster holds from its start: the objects of every cluster, and those that its owner has applied to it.

A new one is given most of it as it would be stored: asking the API server for the same hundred objects takes a third
of the processor time of a start. After a crash amid it, the next start asks for the rest as for whatever is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from trainshed.client.client import Client
from trainshed.cluster.apiserver.bootstrap import bootstrap, publish_authentication
from trainshed.cluster.pki import Pki
from trainshed.cluster.scheduler import install as podgroups
from trainshed.cluster.store import KeyExists, Store
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of, name_of
from trainshed.kube.meta.resources import Resource
from trainshed.kube.meta.times import format_time
from trainshed.tekton.crds import STAND_IN

Stored: TypeAlias = Iterator[Sequence[tuple[str, Object]]]
"""Objects as they are stored, by key; those of one step together."""
New: TypeAlias = Callable[[str], Stored]
"""Gives what a cluster holds that is new at that time. The first step is stored before it is up, the others after."""
Install: TypeAlias = Callable[[bool], Iterator[Sequence[tuple[Resource, bytes]]]]
"""Gives what is applied once it is up, as JSON, those of one step together; it is told whether the cluster was given
what `New` gives."""


async def fill(store: Store, new: New | None) -> Stored | None:
    """Store what a new cluster holds first; return what it holds later, None where there is nothing to give it."""
    if new is None or not store.is_new:
        return None
    rest = new(format_time(time.time()))
    await _store(store, next(rest))
    return rest


async def first_objects(client: Client, pki: Pki) -> None:
    """Ask for what a cluster holds before it is up."""
    await bootstrap(client)
    await _publish(client, pki)
    await podgroups.install(client)


async def install(client: Client, store: Store, pki: Pki, rest: Stored | None, wanted: Install) -> None:
    """Store what `fill` has left of a new cluster, then apply what is wanted."""
    if rest is not None:
        await _publish(client, pki)
        for stored in rest:
            await _store(store, stored)
    for together in wanted(rest is not None):
        await asyncio.gather(*(_apply(client, resource, document) for resource, document in together))


async def _publish(client: Client, pki: Pki) -> None:
    await publish_authentication(client, pki.ca_pem, pki.front_proxy_authority.read_text())


async def _store(store: Store, objects: Sequence[tuple[str, Object]]) -> None:
    """Store what the API server is known to make of objects; who was faster keeps his own."""
    made = await asyncio.gather(*(store.create(key, obj) for key, obj in objects), return_exceptions=True)
    for outcome in made:
        if isinstance(outcome, BaseException) and not isinstance(outcome, KeyExists):
            raise outcome


async def _apply(client: Client, resource: Resource, document: bytes) -> None:
    """Apply an object, unless it stands in for one that the user has installed meanwhile."""
    obj: Object = msgspec.json.decode(document)
    label = next((name for name in labels_of(obj) if name == STAND_IN), None)
    if label is not None:
        try:
            found = await client.get(resource, name_of(obj))
        except ApiError as error:
            if error.code != 404:
                raise
        else:
            if label not in labels_of(found):
                return
    await client.apply(resource, obj, field_manager="trainshed-install")
