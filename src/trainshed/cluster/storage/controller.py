"""What makes the storage controller look at a claim or a volume again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers, key_of
from trainshed.client.events import EventRecorder
from trainshed.cluster.storage.claims import Claims
from trainshed.cluster.storage.volumes import RemoveTree, Volumes
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, STORAGECLASSES

Key = tuple[str, str, str]
"""`claim` or `volume`, namespace, name."""


class StorageController:
    """Binds claims to volumes, provisions the default class, releases and reclaims."""

    def __init__(
        self, client: Client, informers: SharedInformers, root: Path, remove_tree: RemoveTree
    ) -> None:
        """Args: root: where provisioned directories live. remove_tree: how one of them is deleted."""
        self._informers = informers
        events = EventRecorder(client, "persistentvolume-controller")
        self._claims = Claims(client, informers, root, events)
        self._volumes = Volumes(client, informers, root, events, remove_tree)
        # One worker: two claims must never be given the same volume.
        self._controller: Controller[Key] = Controller("storage", self._reconcile, workers=1)
        self._pending: dict[tuple[str, str], None] = {}
        claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._claims_by_volume = claims.index(_volume_name)
        claims.add_handler(self._claim_changed)
        informers.of(PERSISTENTVOLUMES).add_handler(self._volume_changed)
        informers.of(STORAGECLASSES).add_handler(lambda change, old, new: self._retry_pending())
        informers.of(PODS).add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._volumes.reclaiming.run())

    def _claim_changed(self, change: str, old: Object | None, new: Object) -> None:
        key = key_of(new)
        self._controller.enqueue(("claim", *key))
        if change != "DELETED" and (new.get("status") or {}).get("phase") != "Bound":
            self._pending[key] = None
        else:
            self._pending.pop(key, None)
        for volume in _volume_name(new):
            self._controller.enqueue(("volume", "", volume))

    def _volume_changed(self, change: str, old: Object | None, new: Object) -> None:
        name = new["metadata"]["name"]
        self._controller.enqueue(("volume", "", name))
        reference = new["spec"].get("claimRef")
        if reference:
            self._controller.enqueue(("claim", reference.get("namespace", ""), reference["name"]))
        for claim in self._claims_by_volume.get(name):
            self._controller.enqueue(("claim", *key_of(claim)))
        if not reference or change == "DELETED":
            self._retry_pending()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        """A pod may be the first consumer of a claim, or the last."""
        if change != "MODIFIED" or phase(new) in FINISHED:
            for name in claim_names(new):
                self._controller.enqueue(("claim", new["metadata"]["namespace"], name))

    def _retry_pending(self) -> None:
        for key in self._pending:
            self._controller.enqueue(("claim", *key))

    async def _reconcile(self, key: Key) -> float | None:
        kind, namespace, name = key
        try:
            if kind == "claim":
                await self._claims.reconcile(namespace, name)
            else:
                await self._volumes.reconcile(name)
        except ApiError as error:
            if error.code != 404:  # a conflict: tried again with growing delay until the mirror has caught up
                raise
        return None


def _volume_name(claim: Object) -> list[str]:
    name = claim["spec"].get("volumeName")
    return [name] if name else []
