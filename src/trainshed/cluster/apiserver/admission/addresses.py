"""IPAddresses of Services: one for each cluster IP, which says whose it is.

It is written in the same commit as its Service where nothing else is in the queue, and goes with it. What a crash
between the two leaves is mended when the server starts (`bootstrap`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.uids import new_uid
from trainshed.cluster.store import KeyExists, KeyMissing, RevisionMismatch, keys
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, spec_of
from trainshed.kube.meta.resources import IPADDRESSES, SERVICES
from trainshed.kube.meta.times import format_time
from trainshed.kube.patch.managedfields import make_entry

MANAGED_BY = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR = "ipallocator.k8s.io"
_SERVER = "kube-apiserver"
_FIELDS: Object = {
    "f:metadata": {
        "f:labels": {
            ".": {},
            "f:ipaddress.kubernetes.io/ip-family": {},
            "f:ipaddress.kubernetes.io/managed-by": {},
        }
    },
    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
}


def addresses_of(service: Object | None) -> set[str]:
    """Return the cluster IPs that a Service holds."""
    spec = spec_of(service or {})
    return {ip for ip in spec.get("clusterIPs") or (spec.get("clusterIP"),) if ip and ip != "None"}


def address_of(service: Object, ip: str) -> Object:
    """Return the IPAddress of a Service, as the API server makes it, without what the server adds to objects."""
    parent = {"resource": "services", "namespace": namespace_of(service), "name": name_of(service)}
    return {
        "apiVersion": IPADDRESSES.api_version,
        "kind": IPADDRESSES.kind,
        "metadata": {
            "name": ip,
            "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4", MANAGED_BY: ALLOCATOR},
        },
        "spec": {"parentRef": parent},
    }


def is_taken(core: Core, ip: str) -> bool:
    """Return whether an IPAddress keeps this address."""
    return core.store.get(keys.of(IPADDRESSES, None, ip)) is not None


def release(core: Core, kind: ServedKind, obj: Object) -> None:
    """Hold no longer what was given to a Service: it is stored, or was not meant to be. Nothing for other kinds."""
    if kind.resource == SERVICES:
        owner = (namespace_of(obj), name_of(obj))
        for value in [value for value, held in core.reserved.items() if held.owner == owner]:
            del core.reserved[value]


@asynccontextmanager
async def recorded(
    core: Core, kind: ServedKind, new: Object | None, old: Object | None
) -> AsyncIterator[None]:
    """Keep the IPAddresses of a Service while the body stores `new` in the place of `old`; None is no Service."""
    if kind.resource != SERVICES:
        yield
        return
    try:
        async with _kept(core, new, old):
            yield
    finally:
        if new is not None:
            release(core, kind, new)


@asynccontextmanager
async def _kept(core: Core, new: Object | None, old: Object | None) -> AsyncIterator[None]:
    gained, lost = addresses_of(new) - addresses_of(old), addresses_of(old) - addresses_of(new)
    made = [asyncio.ensure_future(_make(core, new, ip)) for ip in sorted(gained)] if new is not None else []
    try:
        yield
    except BaseException:
        await _settled(made)
        await _release(core, gained, new)
        raise
    await _settled(made)
    await _release(core, lost, old)


async def _settled(made: Iterable[asyncio.Future[None]]) -> None:
    for one in made:
        await one


async def _make(core: Core, service: Object, ip: str) -> None:
    now = format_time(core.clock())
    obj = address_of(service, ip)
    entry = make_entry(_SERVER, "Update", IPADDRESSES.api_version, "", now, _FIELDS)
    obj["metadata"] |= {"uid": new_uid(), "creationTimestamp": now, "managedFields": [entry]}
    try:
        await core.store.create(keys.of(IPADDRESSES, None, ip), obj)
    except KeyExists:
        return  # it was made for another attempt at the same Service


async def _release(core: Core, ips: Iterable[str], service: Object | None) -> None:
    """Remove the IPAddresses of a Service, whatever else they are held by."""
    for ip in sorted(ips):
        key = keys.of(IPADDRESSES, None, ip)
        stored = core.store.get(key)
        if stored is None or service is None or not _is_of(stored.obj, service):
            continue
        try:
            await core.store.delete(key, stored.revision)
        except (KeyMissing, RevisionMismatch):
            continue


def _is_of(address: Object, service: Object) -> bool:
    parent = section(spec_of(address), "parentRef")
    return (parent.get("namespace"), parent.get("name")) == (namespace_of(service), name_of(service))
