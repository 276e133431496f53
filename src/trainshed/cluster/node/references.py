"""The objects that a pod refers to, as they were read.

Reads go to the API server when a pod starts, not to a mirror: `kubectl apply` of a ConfigMap and then of a
pod must never find the pod too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import (
    CONFIGMAPS,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    SECRETS,
    Resource,
)

Reference: TypeAlias = tuple[str, str]
"""(plural, name) of an object in the pod's namespace, or of a cluster-scoped one."""

RESOURCES: Mapping[str, Resource] = {
    r.plural: r for r in (CONFIGMAPS, SECRETS, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES)
}


class References(msgspec.Struct, frozen=True):
    """What was read: an object, or None for one that does not exist."""

    objects: Mapping[Reference, Object | None] = {}

    def get(self, plural: str, name: str) -> Object | None:
        return self.objects.get((plural, name))


async def read(client: Client, namespace: str, wanted: Iterable[Reference]) -> References:
    """Return the objects as the API server has them now, and the volumes that the claims are bound to."""
    first = sorted(wanted)
    found = dict(zip(first, await asyncio.gather(*(_read(client, namespace, r) for r in first)), strict=True))
    volumes = [
        ("persistentvolumes", claim["spec"]["volumeName"])
        for (plural, _), claim in found.items()
        if plural == "persistentvolumeclaims" and claim is not None and claim["spec"].get("volumeName")
    ]
    found.update(
        zip(volumes, await asyncio.gather(*(_read(client, namespace, r) for r in volumes)), strict=True)
    )
    return References(found)


async def _read(client: Client, namespace: str, reference: Reference) -> Object | None:
    plural, name = reference
    resource = RESOURCES[plural]
    try:
        return await client.get(resource, name, namespace if resource.namespaced else None)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
