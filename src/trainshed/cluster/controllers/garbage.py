"""Garbage collection: an object all of whose owners are gone is deleted.

Follows the store's own event stream rather than one watch per kind: `storedobjects` says why.

    owner gone            dependents without another owner are deleted, others drop the reference
    owner foreground      its dependents are deleted; when none that blocks is left, or all that is left is a
                          circle of owners waiting for one another, it goes
    owner orphaning       its dependents drop the reference; then it goes
    owner elsewhere       in another namespace than its dependent, to which it does not count: that is told
    owner cannot be told  nothing happens: its kind is not served, it is damaged in the store, or a cluster-scoped
                          object names an owner that lives in a namespace
"""

from __future__ import annotations

import asyncio

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.ownergraph import OwnerGraph
from trainshed.cluster.controllers.storedobjects import ServedKinds, resource_of
from trainshed.cluster.store import DELETED, Compacted, Store, Stored, keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import without_finalizer

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_AT_A_TIME = 500
"""Owners of an object that are looked up before others have their turn: a millisecond."""


class GarbageCollector(Controller[str]):
    """Deletes dependents in the background, and serves the Foreground and Orphan finalizers."""

    def __init__(self, client: Client, store: Store) -> None:
        super().__init__("garbage", workers=8)
        self._client = client
        self._store = store
        self._graph = OwnerGraph()
        self._recorder = EventRecorder(client, "garbage-collector-controller")

    async def run(self) -> None:
        """Collect until cancelled or the store closes."""
        collecting = asyncio.create_task(super().run())
        try:
            await self._follow()
        finally:
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            items, revision = self._store.list("/")
            watch = self._store.watch("/", revision)
            self._graph.clear()
            for stored in items:
                self._graph.seen(stored)
            for stored in items:
                metadata = stored.identity
                if metadata.get("ownerReferences") or _waits(stored):
                    self.enqueue(stored.key)
            try:
                while events := await watch.batch():
                    for event in events:
                        if event.type == DELETED:
                            touched = self._graph.gone(event.stored)
                        else:
                            touched = self._graph.seen(event.stored)
                            if _waits(event.stored):
                                touched.add(event.key)
                        for key in touched:
                            self.enqueue(key)
                return  # the store closes
            except Compacted:
                continue  # fell behind: start over from a list
            finally:
                watch.close()

    async def reconcile(self, key: str) -> None:
        stored = self._store.get(key)
        if stored is None:
            return
        try:
            if _waits(stored):
                await self._finish(stored)
            if not stored.identity.get("deletionTimestamp"):
                await self._collect(stored)
        except ApiError as error:
            if error.code != 404:  # a conflict means that the object has changed: looked at again soon
                raise

    async def _collect(self, stored: Stored) -> None:
        """Delete the object, or drop the references to owners that are gone."""
        metadata = stored.identity
        references = metadata.get("ownerReferences") or []
        solid: list[Object] = []
        waiting = False
        served = ServedKinds(self._store)
        for number, reference in enumerate(references):
            if number % _AT_A_TIME == _AT_A_TIME - 1:
                await asyncio.sleep(
                    0
                )  # whoever else is served waits; what changes meanwhile is a conflict below
            state = self._state(reference, metadata.get("namespace"), served)
            if state == "elsewhere":
                self._tell_elsewhere(stored, reference)
                # Nothing cluster-scoped goes for the lack of an owner that may not be one.
                state = "absent" if metadata.get("namespace") else "unknown"
            if state == "waiting":
                waiting = True
            elif state != "absent":
                solid.append(reference)
        if len(solid) == len(references):
            return
        if solid:
            version = metadata["resourceVersion"]
            patch = {"metadata": {"ownerReferences": solid, "resourceVersion": version}}
            await self._patch(stored, patch)
            return
        await self._delete(stored, self._policy(stored, waiting))

    def _policy(self, stored: Stored, waiting: bool) -> str:
        finalizers = stored.identity.get("finalizers") or ()
        if ORPHAN in finalizers:
            return "Orphan"
        if FOREGROUND in finalizers or (waiting and self._graph.dependents(stored.identity["uid"])):
            return "Foreground"
        return "Background"

    def _state(self, reference: Object, namespace: str | None, served: ServedKinds) -> str:
        """Return present, absent, waiting (being deleted in the foreground), elsewhere or unknown."""
        uid = reference["uid"]
        key = self._graph.key(uid)
        owner = self._store.get(key) if key else None
        if owner is not None and owner.identity["uid"] == uid:
            home = owner.identity.get("namespace")
            if home is not None and home != namespace:
                return "elsewhere"  # API reference: owners in other namespaces do not count
            return "waiting" if _has(owner, FOREGROUND) else "present"
        if self._graph.is_gone(uid):
            return "absent"
        if self._may_be_damaged(reference):
            return "unknown"
        namespaced = served.is_namespaced(reference["apiVersion"], reference["kind"])
        if namespaced is None or (namespaced and namespace is None):
            return "unknown"
        return "absent"

    def _tell_elsewhere(self, stored: Stored, reference: Object) -> None:
        namespace = stored.identity.get("namespace") or ""
        what = f"{reference['apiVersion']}/{reference['kind']}, namespace: {namespace}"
        owner = f"[{what}, name: {reference['name']}, uid: {reference['uid']}]"
        text = f'ownerRef {owner} does not exist in namespace "{namespace}"'
        self._recorder.event(stored.obj, "Warning", "OwnerRefInvalidNamespace", text)

    def _may_be_damaged(self, reference: Object) -> bool:
        """Return whether the owner may be an object that is there and cannot be read."""
        group = reference["apiVersion"].rpartition("/")[0]
        found = (keys.place(key) for key in self._store.damaged(keys.within(group)))
        return any(place.name == reference["name"] for place in found)

    async def _finish(self, stored: Stored) -> None:
        """Serve the finalizers that a Foreground or Orphan deletion put on the owner."""
        uid = stored.identity["uid"]
        dependents = [d for key in self._graph.dependents(uid) if (d := self._store.get(key)) is not None]
        if _has(stored, ORPHAN):
            for dependent in dependents:
                metadata = dependent.identity
                left = [r for r in metadata.get("ownerReferences") or () if r["uid"] != uid]
                version = metadata["resourceVersion"]
                patch = {"metadata": {"ownerReferences": left or None, "resourceVersion": version}}
                await self._patch(dependent, patch)
            await self._patch(stored, without_finalizer(stored.obj, ORPHAN))
            return
        if any(_blocks(dependent, uid) for dependent in dependents) and not self._waits_for_itself(stored):
            for dependent in dependents:
                if not _waits(dependent):  # who waits comes by itself
                    self.enqueue(dependent.key)  # it finds its owner waiting; its end brings us back
            return
        for dependent in dependents:
            self.enqueue(dependent.key)
        await self._patch(stored, without_finalizer(stored.obj, FOREGROUND))

    def _waits_for_itself(self, stored: Stored) -> bool:
        """Return whether blocking dependents that wait for theirs lead back to the object.

        The last one to be deleted of such a circle sees it whole: its own change brings it here.
        """
        seen: set[str] = set()
        ahead = [stored]
        while ahead:
            uid = ahead.pop().identity["uid"]
            for key in self._graph.dependents(uid):
                dependent = self._store.get(key)
                if key in seen or dependent is None or not _has(dependent, FOREGROUND):
                    continue
                if _blocks(dependent, uid):
                    if key == stored.key:
                        return True
                    seen.add(key)
                    ahead.append(dependent)
        return False

    async def _delete(self, stored: Stored, policy: str) -> None:
        metadata = stored.identity
        await self._client.delete(
            resource_of(stored),
            metadata["name"],
            metadata.get("namespace"),
            propagation_policy=policy,
            uid=metadata["uid"],
            # An object that was adopted or changed meanwhile has to be judged anew.
            resource_version=metadata["resourceVersion"],
        )

    async def _patch(self, stored: Stored, patch: Object) -> None:
        metadata = stored.identity
        try:
            await self._client.patch(resource_of(stored), metadata["name"], metadata.get("namespace"), patch)
        except ApiError as error:
            if error.code != 404:
                raise


def _has(stored: Stored, finalizer: str) -> bool:
    metadata = stored.identity
    return bool(metadata.get("deletionTimestamp")) and finalizer in (metadata.get("finalizers") or ())


def _waits(stored: Stored) -> bool:
    metadata = stored.identity
    return bool(metadata.get("deletionTimestamp")) and not {FOREGROUND, ORPHAN}.isdisjoint(
        metadata.get("finalizers") or ()
    )


def _blocks(dependent: Stored, uid: str) -> bool:
    references = dependent.identity.get("ownerReferences") or ()
    return any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)
