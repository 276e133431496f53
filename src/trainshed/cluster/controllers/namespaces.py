"""What every namespace holds from the start, and how a deleted one is emptied."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.cluster.controllers.informers import SharedInformers
from trainshed.cluster.store import Store
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS, Object, Resource

ROOT_CA = "kube-root-ca.crt"


class NamespaceController:
    """Gives each namespace its `default` ServiceAccount and CA ConfigMap; empties and finalizes deleted ones.

    The store tells what is left in a namespace: it knows every kind, also those of CRDs added a moment ago.
    """

    def __init__(self, client: Client, informers: SharedInformers, store: Store, ca_certificate: str) -> None:
        self._client = client
        self._store = store
        self._ca = ca_certificate
        self._namespaces = informers.of(NAMESPACES)
        self._accounts = informers.of(SERVICEACCOUNTS)
        self._controller: Controller[str] = Controller("namespaces", self._reconcile, workers=2)
        self._namespaces.add_handler(
            lambda change, old, new: self._controller.enqueue(new["metadata"]["name"])
        )
        self._accounts.add_handler(self._account_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def _account_changed(self, change: str, old: Object | None, new: Object) -> None:
        if change == "DELETED":
            self._controller.enqueue(new["metadata"]["namespace"])

    async def _reconcile(self, name: str) -> float | None:
        namespace = self._namespaces.get("", name)
        if namespace is None:
            return None
        if namespace["metadata"].get("deletionTimestamp"):
            return await self._empty(namespace)
        await self._ensure(
            SERVICEACCOUNTS,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            },
        )
        await self._ensure(
            CONFIGMAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": name},
                "data": {"ca.crt": self._ca},
            },
        )
        return None

    async def _ensure(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            await self._client.get(resource, metadata["name"], metadata["namespace"])
        except ApiError as error:
            if error.code != 404:
                raise
            try:
                await self._client.create(resource, obj)
            except ApiError as create_error:
                if create_error.reason != "AlreadyExists" and create_error.code not in (403, 404):
                    raise

    async def _empty(self, namespace: Object) -> float | None:
        """Delete what is left. Returns when to look again: pods take their grace period."""
        name = namespace["metadata"]["name"]
        remaining = contents(self._store, name)
        for resource, obj in remaining:
            if obj["metadata"].get("deletionTimestamp"):
                continue
            try:
                await self._client.delete(
                    resource, obj["metadata"]["name"], name, propagation_policy="Background"
                )
            except ApiError as error:
                if error.code not in (404, 405, 409):
                    raise
        if contents(self._store, name):
            return 0.1
        body = {**namespace, "spec": {**(namespace.get("spec") or {}), "finalizers": []}}
        try:
            await self._client.update(NAMESPACES, body, subresource="finalize")
        except ApiError as error:
            if error.code == 409:
                return 0.05
            if error.code != 404:
                raise
        return None


def contents(store: Store, namespace: str) -> list[tuple[Resource, Object]]:
    """Return everything stored in the namespace."""
    items, _ = store.list("/")
    found: list[tuple[Resource, Object]] = []
    for stored in items:
        _, group, plural, in_namespace, _ = stored.key.split("/", 4)
        if in_namespace == namespace:
            found.append((resource_of(group, plural, stored.obj), stored.obj))
    return found


def resource_of(group: str, plural: str, obj: Object) -> Resource:
    """Return the resource of a stored object from its key and its own apiVersion."""
    version = obj["apiVersion"].rsplit("/", 1)[-1]
    return Resource(
        "" if group == "core" else group, version, plural, obj["kind"], "namespace" in obj["metadata"]
    )
