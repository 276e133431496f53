"""Garbage collection: an object all of whose owners are gone is deleted.

Follows the store's own event stream rather than one watch per kind: it knows every kind at once, also those of
CRDs created a moment ago, and needs no second copy of the objects. Deletions go through the API like anyone's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.cluster.controllers.namespaces import resource_of
from trainshed.cluster.store import Compacted, Store, Stored
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import Object

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class GarbageCollector:
    """Deletes dependents in the background, and serves the Foreground and Orphan finalizers."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store
        self._keys: dict[str, str] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._owners: dict[str, set[str]] = {}
        self._controller: Controller[str] = Controller("garbage", self._reconcile, workers=4)

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            items, revision = self._store.list("/")
            for stored in items:
                self._seen(stored)
            for stored in items:
                if stored.obj["metadata"].get("ownerReferences") or stored.obj["metadata"].get(
                    "deletionTimestamp"
                ):
                    self._controller.enqueue(stored.key)
            try:
                async for event in self._store.watch("/", revision):
                    if event.type == "DELETED":
                        self._gone(event.stored)
                    else:
                        self._seen(event.stored)
                        metadata = event.stored.obj["metadata"]
                        if metadata.get("deletionTimestamp") or (
                            event.type == "ADDED" and metadata.get("ownerReferences")
                        ):
                            self._controller.enqueue(event.key)
            except Compacted:
                continue  # fell behind: start over from a list

    def _seen(self, stored: Stored) -> None:
        metadata = stored.obj["metadata"]
        self._keys[metadata["uid"]] = stored.key
        owners = {reference["uid"] for reference in metadata.get("ownerReferences") or ()}
        before = self._owners.get(stored.key, set())
        if owners == before:
            return
        for uid in before - owners:
            self._dependents[uid].discard(stored.key)
        for uid in owners:
            self._dependents[uid].add(stored.key)
        self._owners[stored.key] = owners

    def _gone(self, stored: Stored) -> None:
        uid = stored.obj["metadata"]["uid"]
        self._keys.pop(uid, None)
        for owner in self._owners.pop(stored.key, set()):
            self._dependents[owner].discard(stored.key)
            if owner in self._keys:  # a foreground deletion may have waited for this one
                self._controller.enqueue(self._keys[owner])
        for key in self._dependents.pop(uid, set()):
            self._controller.enqueue(key)

    async def _reconcile(self, key: str) -> float | None:
        stored = self._store.get(key)
        if stored is None:
            return None
        metadata = stored.obj["metadata"]
        try:
            if metadata.get("deletionTimestamp"):
                return await self._finish(stored)
            references = metadata.get("ownerReferences") or ()
            if references and not any(self._exists(r, metadata.get("namespace", "")) for r in references):
                await self._delete(stored, "Background")
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return 0.05 if error.code == 409 else None
        return None

    def _exists(self, reference: Object, namespace: str) -> bool:
        """Return whether the owner is there. An owner in another namespace counts as absent (API reference)."""
        key = self._keys.get(reference["uid"])
        owner = self._store.get(key) if key else None
        return owner is not None and owner.obj["metadata"].get("namespace", namespace) == namespace

    async def _finish(self, stored: Stored) -> float | None:
        """Serve the finalizers that a Foreground or Orphan deletion put on the owner."""
        metadata = stored.obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        dependents = [
            found
            for key in sorted(self._dependents.get(metadata["uid"], ()))
            if (found := self._store.get(key))
        ]
        if ORPHAN in finalizers:
            for dependent in dependents:
                left = [
                    r for r in dependent.obj["metadata"]["ownerReferences"] if r["uid"] != metadata["uid"]
                ]
                await self._patch(dependent, {"metadata": {"ownerReferences": left or None}})
            await self._drop_finalizer(stored, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent in dependents:
                if not dependent.obj["metadata"].get("deletionTimestamp"):
                    await self._delete(dependent, "Foreground")
            blocking = [d for d in dependents if self._blocks(d, metadata["uid"])]
            if any(self._store.get(d.key) for d in blocking):
                return 0.05
            await self._drop_finalizer(stored, FOREGROUND)
        return None

    def _blocks(self, dependent: Stored, uid: str) -> bool:
        references = dependent.obj["metadata"].get("ownerReferences") or ()
        return any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)

    async def _delete(self, stored: Stored, policy: str) -> None:
        _, group, plural, _, name = stored.key.split("/", 4)
        metadata = stored.obj["metadata"]
        try:
            await self._client.delete(
                resource_of(group, plural, stored.obj),
                name,
                metadata.get("namespace"),
                propagation_policy=policy,
                uid=metadata["uid"],
            )
        except ApiError as error:
            if error.code != 404:
                raise

    async def _drop_finalizer(self, stored: Stored, finalizer: str) -> None:
        metadata = stored.obj["metadata"]
        left = [f for f in metadata.get("finalizers") or () if f != finalizer]
        await self._patch(
            stored, {"metadata": {"finalizers": left or None, "resourceVersion": metadata["resourceVersion"]}}
        )

    async def _patch(self, stored: Stored, patch: Object) -> None:
        _, group, plural, _, name = stored.key.split("/", 4)
        await self._client.patch(
            resource_of(group, plural, stored.obj), name, stored.obj["metadata"].get("namespace"), patch
        )
