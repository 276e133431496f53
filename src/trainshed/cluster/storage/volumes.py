"""PersistentVolumes: their phase, their release and what is then left of their data.

Available ──claimed──► Bound ──claim gone──► Released ──policy Delete, ours──► directory removed, deleted
                                                └──────policy Retain, or not ours──► stays
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Worker
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.cluster.sandbox.api import RuntimeLost
from trainshed.cluster.storage import directories
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.ownership import without_finalizer
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from trainshed.kube.meta.times import format_time

PV_PROTECTION = "kubernetes.io/pv-protection"
RETRY_SECONDS = 60.0

RemoveTree = Callable[[Path], Awaitable[None]]
"""Deletes a directory that pods wrote to; raises OSError or RuntimeLost. One that is gone is no error."""


class Volumes:
    """Reconciles single volumes. Directories are removed in the background by `reclaiming`: that takes long."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        root: Path,
        events: EventRecorder,
        remove_tree: RemoveTree,
    ) -> None:
        self._client = client
        self._root = root
        self._remove_tree = remove_tree
        self._events = events
        self._claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._volumes = informers.of(PERSISTENTVOLUMES)
        self.reclaiming: Worker[str] = Worker("reclaiming", self._reclaim, workers=2)

    async def reconcile(self, name: str) -> None:
        """Bring one volume a step further. Raises `ApiError` when the mirror is old."""
        volume = self._volumes.get("", name)
        if volume is None:
            return
        phase = status_of(volume).get("phase", "Pending")
        claimed = section(volume["spec"], "claimRef").get("uid")
        if volume["metadata"].get("deletionTimestamp"):
            finalizers = volume["metadata"].get("finalizers") or []
            if PV_PROTECTION in finalizers and not (claimed and await self._is_claimed(volume)):
                await self._let_go(volume)
        elif not claimed:
            if phase != "Available":
                await self._write_phase(volume, "Available")
        elif await self._is_claimed(volume):
            if phase != "Bound":
                await self._write_phase(volume, "Bound")
        else:
            await self._release(volume, phase)

    async def _is_claimed(self, volume: Object) -> bool:
        """Return whether the claim is there. Absence is asked of the server: data hangs on it."""
        reference = volume["spec"]["claimRef"]
        claim = self._claims.get(reference.get("namespace", ""), reference["name"])
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            try:
                claim = await self._client.get(
                    PERSISTENTVOLUMECLAIMS, reference["name"], reference.get("namespace")
                )
            except ApiError as error:
                if error.code != 404:
                    raise
                return False
        return bool(claim["metadata"]["uid"] == reference["uid"])

    async def _release(self, volume: Object, phase: str) -> None:
        if phase not in ("Released", "Failed"):
            await self._write_phase(volume, "Released")
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not self._is_ours(volume):
                text = "only volumes that were provisioned here are deleted: its data stays where it is"
                self._events.event(volume, "Warning", "VolumeFailedDelete", text)
        if self._is_disposable(volume):
            self.reclaiming.enqueue(volume["metadata"]["name"])

    async def _let_go(self, volume: Object) -> None:
        name = volume["metadata"]["name"]
        if self._is_disposable(volume):
            self.reclaiming.enqueue(name)
        else:
            patch = without_finalizer(volume, PV_PROTECTION)
            await self._client.patch(PERSISTENTVOLUMES, name, None, patch)

    def _is_ours(self, volume: Object) -> bool:
        path = section(volume["spec"], "hostPath").get("path", "")
        return directories.is_provisioned(volume) and directories.is_inside(self._root, path)

    def _is_disposable(self, volume: Object) -> bool:
        return volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and self._is_ours(volume)

    async def _reclaim(self, name: str) -> float | None:
        """Remove the data of a volume that nobody claims, then the volume."""
        try:
            volume = await self._client.get(PERSISTENTVOLUMES, name)
            if not self._is_disposable(volume) or await self._is_claimed(volume):
                return None
            try:
                await self._remove_tree(Path(volume["spec"]["hostPath"]["path"]))
            except (OSError, RuntimeLost) as error:
                self._events.event(volume, "Warning", "VolumeFailedDelete", str(error))
                if status_of(volume).get("phase") != "Failed":
                    await self._write_phase(volume, "Failed", message=str(error))
                return RETRY_SECONDS
            if volume["metadata"].get("deletionTimestamp"):
                patch = without_finalizer(volume, PV_PROTECTION)
                await self._client.patch(PERSISTENTVOLUMES, name, None, patch)
            else:
                await self._client.delete(PERSISTENTVOLUMES, name, uid=volume["metadata"]["uid"])
        except ApiError as error:
            if error.code != 404:
                raise
        return None

    async def _write_phase(self, volume: Object, phase: str, message: str | None = None) -> None:
        patch = {
            "metadata": {"resourceVersion": volume["metadata"]["resourceVersion"]},
            "status": {
                "phase": phase,
                "message": message,
                "lastPhaseTransitionTime": format_time(time.time()),
            },
        }
        name = volume["metadata"]["name"]
        await self._client.patch(PERSISTENTVOLUMES, name, None, patch, subresource="status")
