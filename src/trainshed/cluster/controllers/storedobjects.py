"""The store, for the two controllers that work on every kind at once: garbage collection and namespaces.

They are the exception to "every part talks to the Kubernetes API", and only when reading. What they need the API does
not offer in one place: a list and a watch over all kinds, in one order of revisions, CRDs of a moment ago included. By
API it takes discovery, polled, and one watch per kind (as in Kubernetes, where a new CRD's objects are collected only
after the next discovery), and a second copy of every object in memory. What they write goes through the API, with its
admission, finalizers and preconditions, like anyone's.
"""

from __future__ import annotations

from trainshed.cluster.store import Store, Stored, keys
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS, Resource

_NAMESPACED = {(i.resource.api_version, i.resource.kind): i.resource.namespaced for i in RESOURCES}


def resource_of(stored: Stored) -> Resource:
    """Return the resource of a stored object, at the version that it was written in."""
    place = keys.place(stored.key)
    version = stored.obj["apiVersion"].rpartition("/")[2]
    return Resource(place.group, version, place.plural, stored.obj["kind"], place.namespace is not None)


class ServedKinds:
    """The kinds that are served at one moment. The definitions are read once, when the first is asked for: an object
    may name thousands of owners, each of a kind that nobody has heard of."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._defined: dict[tuple[str, str], bool] | None = None

    def is_namespaced(self, api_version: str, kind: str) -> bool | None:
        """Return whether objects of the kind live in namespaces; None when nothing serves it."""
        known = _NAMESPACED.get((api_version, kind))
        if known is not None:
            return known
        if self._defined is None:
            specs: list[Object] = [
                definition.obj["spec"] for definition in self._store.list(keys.under(CRDS))[0]
            ]
            self._defined = {(s["group"], s["names"]["kind"]): s["scope"] == "Namespaced" for s in specs}
        return self._defined.get((api_version.rpartition("/")[0], kind))


def contents(store: Store, namespace: str) -> list[Stored]:
    """Return everything stored in the namespace, whatever its kind."""
    found: list[Stored] = []
    for group, plural in sorted(_namespaced_resources(store)):
        found += store.list(keys.collection(group, plural, namespace))[0]
    return found


async def discard_damaged(store: Store, namespace: str) -> None:
    """Remove what is stored in the namespace and cannot be read. Raises `StoreError`."""
    for key in store.damaged():
        place = keys.place(key)
        if place.namespace == namespace:
            metadata = {"name": place.name, "namespace": namespace, "uid": ""}
            await store.discard(key, {"metadata": metadata})


def _namespaced_resources(store: Store) -> set[tuple[str, str]]:
    found = {(i.resource.group, i.resource.plural) for i in RESOURCES if i.resource.namespaced}
    for definition in store.list(keys.under(CRDS))[0]:
        spec: Object = definition.obj["spec"]
        if spec["scope"] == "Namespaced":
            found.add((spec["group"], spec["names"]["plural"]))
    return found
