"""The objects that a pod refers to: which ones it needs (pure), and reading them.

Reads go to the API server when a pod starts, not to a mirror: `kubectl apply` of a ConfigMap and then of a
pod must never find the pod too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import init_containers, main_containers
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


def needed(pod: Object) -> set[Reference]:
    """Return every ConfigMap, Secret and claim that the pod names, optional ones included."""
    out: set[Reference] = set()
    for volume in pod["spec"].get("volumes") or ():
        out.update(_of_volume(pod, volume))
    for container in (*init_containers(pod), *main_containers(pod)):
        for source in container.get("envFrom") or ():
            out.update(_named(source, "configMapRef", "secretRef"))
        for variable in container.get("env") or ():
            out.update(_named(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef"))
    return out


def claim_name(pod: Object, volume: Mapping[str, Any]) -> str | None:
    """Return the claim behind a volume; an ephemeral volume's claim is `<pod>-<volume>` (KEP-1698)."""
    if "persistentVolumeClaim" in volume:
        return str(volume["persistentVolumeClaim"]["claimName"])
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return None


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


def _of_volume(pod: Object, volume: Mapping[str, Any]) -> Iterator[Reference]:
    if "configMap" in volume:
        yield "configmaps", volume["configMap"].get("name", "")
    if "secret" in volume:
        yield "secrets", volume["secret"].get("secretName", "")
    claim = claim_name(pod, volume)
    if claim is not None:
        yield "persistentvolumeclaims", claim
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named(source, "configMap", "secret")


def _named(holder: Mapping[str, Any], configmap_key: str, secret_key: str) -> Iterator[Reference]:
    if holder.get(configmap_key):
        yield "configmaps", holder[configmap_key].get("name", "")
    if holder.get(secret_key):
        yield "secrets", holder[secret_key].get("name", "")
