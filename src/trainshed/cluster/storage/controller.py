"""What makes the storage controller look at a claim or a volume again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import key_of
from trainshed.cluster.storage.claims import Claims
from trainshed.cluster.storage.volumes import RemoveTree, Volumes
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, status_of
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, STORAGECLASSES

Key = tuple[str, str, str]
"""`claim` or `volume`, namespace, name."""


class StorageController(Controller[Key]):
    """Binds claims to volumes, provisions the default class, releases and reclaims."""

    def __init__(
        self, client: Client, informers: SharedInformers, root: Path, remove_tree: RemoveTree
    ) -> None:
        """Args: root: where provisioned directories live. remove_tree: how one of them is deleted."""
        # One worker: two claims must never be given the same volume.
        super().__init__("storage", informers, workers=1)
        events = EventRecorder(client, "persistentvolume-controller")
        self._claims = Claims(client, informers, root, events)
        self._volumes = Volumes(client, informers, root, events, remove_tree)
        self._pending = informers.of(PERSISTENTVOLUMECLAIMS).index(_is_pending)
        claims = self.watch(informers.of(PERSISTENTVOLUMECLAIMS), _of_claim)
        self._claims_by_volume = claims.index(_volume_name)
        self.watch(informers.of(PERSISTENTVOLUMES), self._of_volume)
        self.watch(informers.of(STORAGECLASSES), lambda _: self._pending_claims())
        # A pod may be the first consumer of a claim, or the last.
        self.watch(informers.of(PODS), _of_pod, regards=lambda pod: phase(pod) in FINISHED)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._volumes.reclaiming.run())

    def _of_volume(self, volume: Object) -> list[Key]:
        """Return the volume and its claim; one that is free may be what others wait for."""
        name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef")
        keys: list[Key] = [("volume", "", name)]
        keys += [("claim", *key_of(claim)) for claim in self._claims_by_volume.get(name)]
        if reference:
            return [*keys, ("claim", reference.get("namespace", ""), reference["name"])]
        return keys + self._pending_claims()

    def _pending_claims(self) -> list[Key]:
        return [("claim", *key_of(claim)) for claim in self._pending.get("")]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one claim or volume a step on."""
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


def _of_claim(claim: Object) -> list[Key]:
    return [("claim", *key_of(claim)), *(("volume", "", name) for name in _volume_name(claim))]


def _of_pod(pod: Object) -> list[Key]:
    return [("claim", pod["metadata"]["namespace"], name) for name in claim_names(pod)]


def _is_pending(claim: Object) -> list[str]:
    """Return the one group of claims that are not bound."""
    return [""] if status_of(claim).get("phase") != "Bound" else []


def _volume_name(claim: Object) -> list[str]:
    name = claim["spec"].get("volumeName")
    return [name] if name else []
