"""Claims that pods bring along: each `ephemeral` volume is a claim of its own, which ends with its pod (KEP-1698)."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section, uid_of
from trainshed.kube.meta.ownership import controller_of, controller_reference
from trainshed.kube.meta.pods import FINISHED, ephemeral_claims, phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PODS


class EphemeralController(Controller[Key]):
    """Makes the claims of pods; the garbage collector deletes them when their pods are gone."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        super().__init__("ephemeral-volumes", informers, workers=2)
        self._client = client
        self._events = EventRecorder(client, "ephemeral_volume")
        self._pods = self.watch(informers.of(PODS), _of_pod, regards=lambda pod: pod["metadata"]["uid"])
        self._claims = self.watch(informers.of(PERSISTENTVOLUMECLAIMS), _of_claim, regards=uid_of)

    async def reconcile(self, key: Key) -> float | None:
        """Make what is missing of one pod's claims, and say which cannot be made."""
        pod = self._pods.get(*key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or phase(pod) in FINISHED:
            return None
        for name, volume in ephemeral_claims(pod).items():
            existing = self._claims.get(key[0], name)
            if existing is None:
                await self._make(pod, name, volume)
            elif section(controller_of(existing) or {}).get("uid") != uid_of(pod):
                text = f'PVC "{key[0]}/{name}" was not created for the pod: it belongs to somebody else'
                self._events.event(pod, "Warning", "FailedBinding", text)
        return None

    async def _make(self, pod: Object, name: str, volume: Object) -> None:
        template = section(volume, "volumeClaimTemplate")
        metadata = section(template, "metadata")
        kept = {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)}
        owned = {"name": name, "namespace": pod["metadata"]["namespace"], **kept}
        owner = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**owned, "ownerReferences": [controller_reference(owner)]},
            "spec": section(template, "spec"),
        }
        try:
            await self._client.create(PERSISTENTVOLUMECLAIMS, claim)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return  # its event brings us back
            text = f"ephemeral volume controller cannot create a PVC: {error}"
            self._events.event(pod, "Warning", "FailedBinding", text)
            raise


def _of_pod(pod: Object) -> list[Key]:
    return [key_of(pod)] if ephemeral_claims(pod) else []


def _of_claim(claim: Object) -> list[Key]:
    owner = controller_of(claim)
    if owner is None or owner["kind"] != "Pod":
        return []
    return [(claim["metadata"]["namespace"], owner["name"])]
