"""What every namespace holds from the start, and how a deleted one is emptied."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.batches import all_of
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.controllers.namespace_status import deletion_conditions
from trainshed.cluster.controllers.storedobjects import contents, discard_damaged, resource_of
from trainshed.cluster.store import Store, Stored, keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, spec_of, status_of
from trainshed.kube.meta.resources import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS, Resource
from trainshed.kube.meta.times import format_time

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_ROOT_CA_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)
FINALIZER = "kubernetes"
"""Entry of a namespace's `spec.finalizers`: dropped when the namespace is empty."""
FIRST_ROUND_SECONDS = 0.05
MAX_ROUND_SECONDS = 0.5
_ANSWERED = (403, 404, 409)
"""On create: the namespace goes away, is gone, or somebody was faster."""


class NamespaceController(Controller[str]):
    """Gives each namespace its `default` ServiceAccount and CA ConfigMap; empties and finalizes deleted ones.

    The store tells what is left in a namespace: `storedobjects` says why.
    """

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        store: Store,
        ca_certificate: str,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Args: ca_certificate: PEM, what pods trust the API server by."""
        super().__init__("namespaces", informers, workers=4)
        self._client = client
        self._store = store
        self._now = now
        self._ca = ca_certificate
        self._rounds: dict[str, int] = {}
        self._namespaces = self.watch(informers.of(NAMESPACES), lambda obj: [obj["metadata"]["name"]])
        for resource, name in ((SERVICEACCOUNTS, DEFAULT_ACCOUNT), (CONFIGMAPS, ROOT_CA)):
            given = informers.of(resource, field_selector=f"metadata.name={name}")
            self.watch(given, lambda obj: [obj["metadata"]["namespace"]])

    async def reconcile(self, name: str) -> float | None:
        namespace = self._namespaces.get("", name)
        if namespace is None:
            self._rounds.pop(name, None)
            # A create that was on its way when the namespace went may have left something behind.
            if self._store.get(keys.of(NAMESPACES, None, name)) is None:
                await self._sweep(name)
            return None
        if namespace["metadata"].get("deletionTimestamp"):
            return await self._empty(namespace)
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        await self._ensure(
            SERVICEACCOUNTS, {**account, "metadata": {"name": DEFAULT_ACCOUNT, "namespace": name}}
        )
        await self._ensure(
            CONFIGMAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": ROOT_CA,
                    "namespace": name,
                    "annotations": {"kubernetes.io/description": _ROOT_CA_DESCRIPTION},
                },
                "data": {"ca.crt": self._ca},
            },
        )
        return None

    async def _ensure(self, resource: Resource, obj: Object) -> None:
        """Create what is missing; give a ConfigMap back its data."""
        metadata = obj["metadata"]
        stored = self._store.get(keys.of(resource, metadata["namespace"], metadata["name"]))
        try:
            if stored is None:
                await self._client.create(resource, obj)
            elif stored.obj.get("data") != obj.get("data"):
                there = stored.obj.get("data") or {}
                patch = {"data": {**dict.fromkeys(there), **obj["data"]}}
                await self._client.patch(resource, metadata["name"], metadata["namespace"], patch)
        except ApiError as error:
            if error.code not in _ANSWERED:
                raise

    async def _empty(self, namespace: Object) -> float | None:
        """Delete what is left. Return when to look again: pods take their grace period."""
        name = namespace["metadata"]["name"]
        await discard_damaged(self._store, name)
        failures = await self._sweep(name)
        remaining = contents(self._store, name)
        if remaining or failures:
            await self._explain(namespace, remaining, failures)
            round_ = self._rounds[name] = self._rounds.get(name, -1) + 1
            return float(min(FIRST_ROUND_SECONDS * 2 ** min(round_, 10), MAX_ROUND_SECONDS))
        explained = await self._explain(namespace, remaining, failures)
        if explained is None:
            return None
        namespace = explained
        left = [f for f in spec_of(namespace).get("finalizers") or () if f != FINALIZER]
        body = {**namespace, "spec": {**spec_of(namespace), "finalizers": left}}
        try:
            await self._client.update(NAMESPACES, body, subresource="finalize")
        except ApiError as error:
            if error.code != 404:
                raise  # a conflict: our own conditions are on their way to the mirror
        return None

    async def _sweep(self, name: str) -> list[str]:
        """Delete all content that is not on its way out; return what could not be."""
        todo = [s for s in contents(self._store, name) if not s.obj["metadata"].get("deletionTimestamp")]

        async def delete(stored: Stored) -> None:
            metadata = stored.obj["metadata"]
            try:
                await self._client.delete(
                    resource_of(stored),
                    metadata["name"],
                    name,
                    propagation_policy="Background",
                    uid=metadata["uid"],
                )
            except ApiError as error:
                if error.code not in (404, 409):
                    raise

        failures = await all_of(todo, delete)
        for failure in failures:
            if not isinstance(failure, ApiError):
                raise failure
        return [str(failure) for failure in failures]

    async def _explain(
        self, namespace: Object, remaining: list[Stored], failures: list[str]
    ) -> Object | None:
        """Return the namespace with the conditions of its end, None when it is gone."""
        status = status_of(namespace)
        stamp = format_time(self._now())
        conditions = deletion_conditions(
            ((resource_of(stored).group_resource, stored.obj) for stored in remaining),
            failures,
            status.get("conditions") or (),
            stamp,
        )
        if conditions == status.get("conditions"):
            return namespace
        try:
            return await self._client.patch(
                NAMESPACES,
                namespace["metadata"]["name"],
                None,
                {"status": {"conditions": conditions}},
                subresource="status",
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return None
