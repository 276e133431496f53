"""PersistentVolumeClaims: bound to a volume, given a new one, lost, protected, let go.

Order of writes as in the Kubernetes volume controller, so that a crash between any two is picked up by the
next reconcile: volume.spec.claimRef, volume.status, claim.spec.volumeName, claim.status.

    Pending ──fitting volume, or the class provisions one──► Bound ──volume gone──► Lost
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import key_of
from trainshed.cluster.storage import directories, resize
from trainshed.cluster.storage.matching import capacity, match, refers_to, requested
from trainshed.kube.builtin.parts.storageclasses import default_class
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, metadata_of, name_of, namespace_of, section, status_of
from trainshed.kube.meta.ownership import without_finalizer
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, STORAGECLASSES
from trainshed.kube.meta.times import format_time

PVC_PROTECTION = "kubernetes.io/pvc-protection"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
_NO_RESIZER = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume; waiting for an external controller to "
    "process this PVC."
)
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_WAITS = "waiting for first consumer to be created before binding"
_BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"


class Claims:
    """Reconciles single claims. Not concurrent: two claims must never be given the same volume."""

    def __init__(self, client: Client, informers: SharedInformers, root: Path, events: EventRecorder) -> None:
        self._client = client
        self._root = root
        self._events = events
        self._claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._volumes = informers.of(PERSISTENTVOLUMES)
        self._classes = informers.of(STORAGECLASSES)
        self._pods_by_claim = informers.of(PODS).index(_claim_keys)

    async def reconcile(self, namespace: str, name: str) -> None:
        """Bring one claim a step further. Raises `ApiError` when the mirror is old."""
        claim = self._claims.get(namespace, name)
        if claim is None:
            return
        if claim["metadata"].get("deletionTimestamp"):
            await self._let_go(claim)
        elif section(claim["metadata"], "annotations").get(BIND_COMPLETED):
            await self._check(claim)
        elif "storageClassName" not in claim["spec"] and (default := default_class(self._classes.items())):
            # The default class came after the claim (KEP-3333).
            patch = _exactly(claim, {"spec": {"storageClassName": default}})
            await self._client.patch(PERSISTENTVOLUMECLAIMS, name, namespace, patch)
        else:
            found = match(claim, self._volumes.items())
            if found.volume is not None and self._waits(claim, found.volume):
                self._events.event(claim, "Normal", "WaitForFirstConsumer", _WAITS)
            elif found.volume is not None:
                await self._bind(claim, found.volume)
            else:
                await self._provision_or_explain(claim, found.why_not)

    def _waits(self, claim: Object, volume: Object) -> bool:
        """Return whether the claim's class has it wait for a pod; not where volume or claim name each other."""
        storage_class = self._classes.get("", claim["spec"].get("storageClassName") or "") or {}
        lazy = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        named = claim["spec"].get("volumeName") or section(volume["spec"], "claimRef")
        return lazy and not named and not self._users(claim)

    async def _check(self, claim: Object) -> None:
        """Look after a claim that was bound before."""
        name = claim["spec"].get("volumeName", "")
        volume = self._volumes.get("", name)
        if volume is None:
            try:
                # The mirrors of claims and volumes are not of the same moment: ask before calling it lost.
                volume = await self._client.get(PERSISTENTVOLUMES, name)
            except ApiError as error:
                if error.code != 404:
                    raise
        reference = volume["spec"].get("claimRef") if volume is not None else None
        if volume is None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", text)
        elif reference and not refers_to(reference, claim):
            text = f"PersistentVolume {name} is bound to another claim: {reference.get('namespace')}/"
            await self._lose(claim, "ClaimMisbound", text + str(reference.get("name")))
        else:
            await self._bind(*await self._expanded(claim, volume))

    async def _expanded(self, claim: Object, volume: Object) -> tuple[Object, Object]:
        """Return the claim and the volume, as large as the claim asks when that is a directory: those have no size."""
        if requested(claim) <= capacity(volume):
            return claim, volume
        if not directories.is_provisioned(volume):
            self._events.event(claim, "Warning", "ExternalExpanding", _NO_RESIZER)
            return claim, volume
        namespace, name = key_of(claim)
        volume_name = volume["metadata"]["name"]
        if (status := resize.begun(claim, time.time())) is not None:
            self._events.event(
                claim, "Normal", "Resizing", f"External resizer is resizing volume {volume_name}"
            )
            patch = _exactly(claim, {"status": status})
            claim = await self._client.patch(
                PERSISTENTVOLUMECLAIMS, name, namespace, patch, subresource="status"
            )
        patch = _exactly(volume, {"spec": {"capacity": {"storage": resize.wanted_size(claim)}}})
        return claim, await self._client.patch(PERSISTENTVOLUMES, volume_name, None, patch)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Write what is missing of the binding."""
        namespace, name = key_of(claim)
        volume_name = volume["metadata"]["name"]
        if not section(volume["spec"], "claimRef").get("uid"):
            ours = {"metadata": {"annotations": {BOUND_BY_US: "yes"}}} if not _reserved(volume) else {}
            patch = _exactly(volume, {**ours, "spec": {"claimRef": directories.claim_reference(claim)}})
            volume = await self._client.patch(PERSISTENTVOLUMES, volume_name, None, patch)
        if status_of(volume).get("phase") != "Bound":
            bound = {"phase": "Bound", "lastPhaseTransitionTime": format_time(time.time())}
            patch = _exactly(volume, {"status": bound})
            await self._client.patch(PERSISTENTVOLUMES, volume_name, None, patch, subresource="status")
        annotations = {BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            annotations[BOUND_BY_US] = "yes"
        if directories.is_provisioned(volume):
            annotations[STORAGE_PROVISIONER] = directories.PROVISIONER
        if not annotations.items() <= section(claim["metadata"], "annotations").items():
            fields = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume_name}}
            claim = await self._client.patch(PERSISTENTVOLUMECLAIMS, name, namespace, _exactly(claim, fields))
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
        }
        has_grown = resize.is_resizing(claim) and requested(claim) <= capacity(volume)
        if has_grown or not status.items() <= status_of(claim).items():
            patch = _exactly(claim, {"status": {**status, **(resize.ended(claim) if has_grown else {})}})
            await self._client.patch(PERSISTENTVOLUMECLAIMS, name, namespace, patch, subresource="status")
        if has_grown:
            self._events.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _ask(self, claim: Object, provisioner: str) -> None:
        """Let the provisioner of somebody else know that the claim is for it."""
        wanted = dict.fromkeys((STORAGE_PROVISIONER, _BETA_PROVISIONER), provisioner)
        if not wanted.items() <= section(claim["metadata"], "annotations").items():
            patch = _exactly(claim, {"metadata": {"annotations": wanted}})
            await self._client.patch(PERSISTENTVOLUMECLAIMS, name_of(claim), namespace_of(claim), patch)

    async def _lose(self, claim: Object, reason: str, text: str) -> None:
        if status_of(claim).get("phase") == "Lost":
            return
        namespace, name = key_of(claim)
        patch = _exactly(claim, {"status": {"phase": "Lost"}})
        await self._client.patch(PERSISTENTVOLUMECLAIMS, name, namespace, patch, subresource="status")
        self._events.event(claim, "Warning", reason, text)

    async def _provision_or_explain(self, claim: Object, why_not: tuple[str, ...]) -> None:
        class_name = claim["spec"].get("storageClassName") or ""
        storage_class = self._classes.get("", class_name) if class_name else None
        if claim["spec"].get("volumeName") or storage_class is None:
            text = "no persistent volumes available for this claim and no storage class is set"
            kind, reason = "Normal", "FailedBinding"
            if claim["spec"].get("volumeName"):
                text = "no persistent volumes available for this claim"
            elif class_name:
                text = f'storageclass.storage.k8s.io "{class_name}" not found'
                kind, reason = "Warning", "ProvisioningFailed"
            # Which volumes there are, and why not those, is our own.
            self._events.event(claim, kind, reason, f"{text} ({'; '.join(why_not)})" if why_not else text)
            return
        provisioner = storage_class.get("provisioner", "")
        if provisioner == "kubernetes.io/no-provisioner":
            text = "; ".join(why_not) or "there is none"
            self._events.event(
                claim, "Normal", "FailedBinding", f"no persistent volumes available for this claim ({text})"
            )
        elif provisioner != directories.PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by"
                " the system administrator. If volume creation is delayed, please verify that the provisioner is"
                " running and correctly registered."
            )
            await self._ask(claim, provisioner)
            self._events.event(claim, "Normal", "ExternalProvisioning", text)
        elif problem := _unprovisionable(claim):
            self._events.event(claim, "Warning", "ProvisioningFailed", problem)
        elif storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not self._users(claim):
            self._events.event(claim, "Normal", "WaitForFirstConsumer", _WAITS)
        else:
            await self._provision(claim, storage_class)

    async def _provision(self, claim: Object, storage_class: Object) -> None:
        try:
            directory = await asyncio.to_thread(directories.create, self._root, claim)
        except OSError as error:
            self._events.event(claim, "Warning", "ProvisioningFailed", str(error))
            raise
        volume = directories.volume_for(claim, storage_class, directory)
        try:
            volume = await self._client.create(PERSISTENTVOLUMES, volume)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            volume = await self._client.get(PERSISTENTVOLUMES, volume["metadata"]["name"])
        name = volume["metadata"]["name"]
        text = f"Successfully provisioned volume {name} in {directory}"
        self._events.event(claim, "Normal", "ProvisioningSucceeded", text)
        await self._bind(claim, volume)

    async def _let_go(self, claim: Object) -> None:
        """Drop the protection once no running pod uses the claim. A pod without a node will not start with it."""
        finalizers = claim["metadata"].get("finalizers") or []
        if PVC_PROTECTION not in finalizers or any(map(_holds, self._users(claim))):
            return
        namespace, name = key_of(claim)
        # The mirror of pods may be behind: a pod that was just started would lose its data.
        pods = (await self._client.list(PODS, namespace)).items
        if not any(_holds(pod) for pod in pods if name in claim_names(pod)):
            patch = without_finalizer(claim, PVC_PROTECTION)
            await self._client.patch(PERSISTENTVOLUMECLAIMS, name, namespace, patch)

    def _users(self, claim: Object) -> list[Object]:
        namespace, name = key_of(claim)
        return [pod for pod in self._pods_by_claim.get(f"{namespace}/{name}") if phase(pod) not in FINISHED]


def _claim_keys(pod: Object) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod)]


def _holds(pod: Object) -> bool:
    return phase(pod) not in FINISHED and bool(pod["spec"].get("nodeName"))


def _reserved(volume: Object) -> bool:
    return bool(volume["spec"].get("claimRef"))


def _unprovisionable(claim: Object) -> str:
    if claim["spec"].get("selector"):
        return (
            "a claim with spec.selector is never provisioned: "
            "create a PersistentVolume that matches, or drop the selector"
        )
    if claim["spec"].get("volumeMode") == "Block":
        return "a directory is no block device: use volumeMode Filesystem"
    return ""


def _exactly(obj: Object, patch: Object) -> Object:
    """Return a merge patch that the server refuses when the object is not at this version any more."""
    version = obj["metadata"]["resourceVersion"]
    return {**patch, "metadata": {**metadata_of(patch), "resourceVersion": version}}
