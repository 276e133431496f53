"""Binds claims to volumes, provisions the default class, releases and reclaims.

Order of writes as in the Kubernetes volume controller, so that a crash between any two is picked up by the
next reconcile: volume.spec.claimRef, volume.status, claim.spec.volumeName, claim.status.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.informers import SharedInformers, key_of
from trainshed.cluster.storage import directories
from trainshed.cluster.storage.matching import match, refers_to
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import (
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODS,
    STORAGECLASSES,
    Object,
)

PVC_PROTECTION = "kubernetes.io/pvc-protection"
PV_PROTECTION = "kubernetes.io/pv-protection"
Key = tuple[str, str, str]  # kind, namespace, name


class StorageController:
    """Keeps PersistentVolumes and claims bound to each other."""

    def __init__(self, client: Client, informers: SharedInformers, root: Path) -> None:
        """Args: root: where provisioned directories live."""
        self._client = client
        self._root = root
        self._claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._volumes = informers.of(PERSISTENTVOLUMES)
        self._classes = informers.of(STORAGECLASSES)
        self._pods = informers.of(PODS)
        self._events = EventRecorder(client, "persistentvolume-controller")
        # One worker: two claims must never be given the same volume.
        self._controller: Controller[Key] = Controller("storage", self._reconcile, workers=1)
        self._claims.add_handler(self._claim_changed)
        self._volumes.add_handler(self._volume_changed)
        self._classes.add_handler(lambda change, old, new: self._retry_pending_claims())
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def _claim_changed(self, change: str, old: Object | None, new: Object) -> None:
        self._controller.enqueue(("claim", *key_of(new)))
        volume = new["spec"].get("volumeName")
        if volume:
            self._controller.enqueue(("volume", "", volume))

    def _volume_changed(self, change: str, old: Object | None, new: Object) -> None:
        self._controller.enqueue(("volume", *key_of(new)))
        reference = new["spec"].get("claimRef")
        if reference:
            self._controller.enqueue(("claim", reference["namespace"], reference["name"]))
        self._retry_pending_claims()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        finished = (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if change != "DELETED" and old is not None and not finished:
            return
        for name in claim_names(new):
            self._controller.enqueue(("claim", new["metadata"]["namespace"], name))

    def _retry_pending_claims(self) -> None:
        for claim in self._claims.items():
            if (claim.get("status") or {}).get("phase") != "Bound":
                self._controller.enqueue(("claim", *key_of(claim)))

    async def _reconcile(self, key: Key) -> float | None:
        kind, namespace, name = key
        try:
            if kind == "claim":
                await self._reconcile_claim(namespace, name)
            else:
                await self._reconcile_volume(name)
        except ApiError as error:
            if error.code in (404, 409):  # stale view: the watch brings the newer one
                return 0.05
            raise
        return None

    # Claims

    async def _reconcile_claim(self, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        if claim is None:
            return
        if claim["metadata"].get("deletionTimestamp"):
            await self._let_claim_go(claim)
            return
        bound_to = claim["spec"].get("volumeName")
        if bound_to and (claim.get("status") or {}).get("phase") == "Bound":
            if self._volumes.get("", bound_to) is None:
                await self._lose(claim, bound_to)
            return
        found = match(claim, list(self._volumes.items()))
        if found.volume is not None:
            await self._bind(claim, found.volume)
            return
        await self._provision_or_explain(claim, found.why_not)

    async def _provision_or_explain(self, claim: Object, why_not: tuple[str, ...]) -> None:
        class_name = claim["spec"].get("storageClassName") or ""
        storage_class = self._classes.get("", class_name) if class_name else None
        if storage_class is None or storage_class.get("provisioner") != directories.PROVISIONER:
            looked_at = "; ".join(why_not)
            text = "no persistent volumes available for this claim"
            if class_name and storage_class is None:
                text += f' and no storage class "{class_name}" is set up to provision one'
            elif storage_class is not None:
                text = f'waiting for the external provisioner "{storage_class.get("provisioner")}" to create a volume'
            self._events.event(
                claim, "Normal", "FailedBinding", f"{text} ({looked_at})" if looked_at else text
            )
            return
        if claim["spec"].get("selector"):
            self._events.event(
                claim,
                "Warning",
                "ProvisioningFailed",
                "a claim with spec.selector is never provisioned: "
                "create a PersistentVolume that matches, or drop the selector",
            )
            return
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not self._users(claim):
            self._events.event(
                claim,
                "Normal",
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding",
            )
            return
        directory = await asyncio.to_thread(directories.create, self._root, claim)
        volume = directories.volume_for(claim, storage_class, directory)
        try:
            volume = await self._client.create(PERSISTENTVOLUMES, volume)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            volume = await self._client.get(PERSISTENTVOLUMES, volume["metadata"]["name"])
        self._events.event(
            claim,
            "Normal",
            "ProvisioningSucceeded",
            f"Successfully provisioned volume {volume['metadata']['name']} in {directory}",
        )
        await self._bind(claim, volume)

    async def _bind(self, claim: Object, volume: Object) -> None:
        namespace, name = key_of(claim)
        volume_name = volume["metadata"]["name"]
        if not refers_to(volume["spec"].get("claimRef"), claim) or not volume["spec"]["claimRef"].get("uid"):
            annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
            volume = await self._client.patch(
                PERSISTENTVOLUMES,
                volume_name,
                None,
                {
                    "metadata": {
                        "annotations": annotations,
                        "resourceVersion": volume["metadata"]["resourceVersion"],
                    },
                    "spec": {"claimRef": directories.claim_reference(claim)},
                },
            )
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._volume_phase(volume_name, "Bound")
        if claim["spec"].get("volumeName") != volume_name:
            await self._client.patch(
                PERSISTENTVOLUMECLAIMS,
                name,
                namespace,
                {
                    "metadata": {
                        "annotations": {
                            "pv.kubernetes.io/bind-completed": "yes",
                            "pv.kubernetes.io/bound-by-controller": "yes",
                        }
                    },
                    "spec": {"volumeName": volume_name},
                },
            )
        await self._client.patch(
            PERSISTENTVOLUMECLAIMS,
            name,
            namespace,
            {
                "status": {
                    "phase": "Bound",
                    "accessModes": volume["spec"].get("accessModes") or [],
                    "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
                }
            },
            subresource="status",
        )

    async def _lose(self, claim: Object, volume: str) -> None:
        namespace, name = key_of(claim)
        await self._client.patch(
            PERSISTENTVOLUMECLAIMS, name, namespace, {"status": {"phase": "Lost"}}, subresource="status"
        )
        self._events.event(
            claim,
            "Warning",
            "ClaimLost",
            f"Bound claim has lost its PersistentVolume {volume}. Its data may be lost",
        )

    async def _let_claim_go(self, claim: Object) -> None:
        """Drop the protection once no unfinished pod uses the claim."""
        finalizers = claim["metadata"].get("finalizers") or []
        if PVC_PROTECTION not in finalizers or self._users(claim):
            return
        namespace, name = key_of(claim)
        await self._client.patch(
            PERSISTENTVOLUMECLAIMS, name, namespace, without_finalizer(claim, PVC_PROTECTION)
        )

    def _users(self, claim: Object) -> list[Object]:
        namespace, name = key_of(claim)
        return [
            pod
            for pod in self._pods.items()
            if pod["metadata"]["namespace"] == namespace
            and name in claim_names(pod)
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    # Volumes

    async def _reconcile_volume(self, name: str) -> None:
        volume = self._volumes.get("", name)
        if volume is None:
            return
        phase = (volume.get("status") or {}).get("phase", "Pending")
        reference = volume["spec"].get("claimRef")
        if volume["metadata"].get("deletionTimestamp"):
            finalizers = volume["metadata"].get("finalizers") or []
            if PV_PROTECTION in finalizers and not self._claim_of(volume):
                await self._client.patch(
                    PERSISTENTVOLUMES, name, None, without_finalizer(volume, PV_PROTECTION)
                )
            return
        if not reference or not reference.get("uid"):
            if phase != "Available":
                await self._volume_phase(name, "Available")
            return
        if self._claim_of(volume):
            return
        await self._release(volume, phase)

    def _claim_of(self, volume: Object) -> Object | None:
        reference = volume["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            return None
        claim = self._claims.get(reference["namespace"], reference["name"])
        return claim if claim is not None and claim["metadata"]["uid"] == reference["uid"] else None

    async def _release(self, volume: Object, phase: str) -> None:
        """Handle a volume whose claim is gone. The informer may lag: ask the server before data is deleted."""
        reference = volume["spec"]["claimRef"]
        name = volume["metadata"]["name"]
        try:
            claim = await self._client.get(PERSISTENTVOLUMECLAIMS, reference["name"], reference["namespace"])
            if claim["metadata"]["uid"] == reference["uid"]:
                return
        except ApiError as error:
            if error.code != 404:
                raise
        if phase != "Released":
            await self._volume_phase(name, "Released")
        annotations = volume["metadata"].get("annotations") or {}
        ours = annotations.get("pv.kubernetes.io/provisioned-by") == directories.PROVISIONER
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and ours:
            path = (volume["spec"].get("hostPath") or {}).get("path", "")
            try:
                await asyncio.to_thread(directories.remove, self._root, path)
            except OSError as error:
                self._events.event(volume, "Warning", "VolumeFailedDelete", str(error))
                return
            await self._client.delete(PERSISTENTVOLUMES, name)

    async def _volume_phase(self, name: str, phase: str) -> None:
        await self._client.patch(
            PERSISTENTVOLUMES, name, None, {"status": {"phase": phase}}, subresource="status"
        )


def claim_names(pod: Object) -> list[str]:
    """Return the names of the claims that the pod mounts."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")]


def without_finalizer(obj: Object, finalizer: str) -> Object:
    """Return a merge patch that drops one finalizer, valid for exactly this version of the object."""
    left = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
    return {"metadata": {"finalizers": left or None, "resourceVersion": obj["metadata"]["resourceVersion"]}}
