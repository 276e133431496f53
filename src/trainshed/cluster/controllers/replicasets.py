"""ReplicaSets: as many pods of a template as asked for."""

from __future__ import annotations

import copy
from collections import defaultdict

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.cluster.controllers.endpoints import is_ready
from trainshed.cluster.controllers.informers import SharedInformers, key_of
from trainshed.cluster.controllers.ownership import controlled_by, controller_of, controller_reference
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import PODS, REPLICASETS, Object

Key = tuple[str, str]


def replica_status(replica_set: Object, pods: list[Object]) -> Object:
    """Return the status that the pods amount to; zero counts other than `replicas` are left out."""
    ready = [pod for pod in pods if is_ready(pod)]
    labels = replica_set["spec"]["template"].get("metadata", {}).get("labels") or {}
    labelled = [pod for pod in pods if labels.items() <= (pod["metadata"].get("labels") or {}).items()]
    out: Object = {"replicas": len(pods), "observedGeneration": replica_set["metadata"].get("generation", 0)}
    for name, count in (
        ("fullyLabeledReplicas", len(labelled)),
        ("readyReplicas", len(ready)),
        ("availableReplicas", len(ready)),
    ):
        if count:
            out[name] = count
    return out


def surplus(pods: list[Object], count: int) -> list[Object]:
    """Return the `count` pods to delete: unscheduled before scheduled, unready before ready, younger before older."""
    order = sorted(
        pods,
        key=lambda pod: (
            bool(pod["spec"].get("nodeName")),
            is_ready(pod),
            [-ord(c) for c in pod["metadata"]["creationTimestamp"]],
        ),
    )
    return order[:count]


class ReplicaSetController:
    """Creates and deletes pods until each ReplicaSet has what it asks for.

    Pods have random names, so a creation that the informer does not show yet is remembered: without that a
    second reconcile would create the same pod again.
    """

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._sets = informers.of(REPLICASETS)
        self._pods = informers.of(PODS)
        self._unseen: dict[Key, set[str]] = defaultdict(set)
        self._controller: Controller[Key] = Controller("replicasets", self._reconcile, workers=2)
        self._sets.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        owner = controller_of(new)
        if owner is not None and owner["kind"] == "ReplicaSet":
            key = (new["metadata"]["namespace"], owner["name"])
            self._unseen[key].discard(new["metadata"]["name"])
            self._controller.enqueue(key)

    async def _reconcile(self, key: Key) -> float | None:
        replica_set = self._sets.get(*key)
        if replica_set is None:
            self._unseen.pop(key, None)
            return None
        if replica_set["metadata"].get("deletionTimestamp"):
            return None
        pods = [
            pod
            for pod in controlled_by(replica_set, self._pods.items())
            if not pod["metadata"].get("deletionTimestamp")
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]
        missing = int(replica_set["spec"].get("replicas", 1)) - len(pods) - len(self._unseen[key])
        try:
            for _ in range(max(missing, 0)):
                created = await self._client.create(PODS, self._pod(replica_set))
                if self._pods.get(key[0], created["metadata"]["name"]) is None:
                    self._unseen[key].add(created["metadata"]["name"])
            for pod in surplus(pods, max(-missing, 0)):
                await self._client.delete(PODS, pod["metadata"]["name"], key[0], uid=pod["metadata"]["uid"])
            await self._write_status(replica_set, pods)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return 0.05
        return None

    async def _write_status(self, replica_set: Object, pods: list[Object]) -> None:
        desired = replica_status(replica_set, pods)
        if replica_set.get("status") != desired:
            await self._client.update(REPLICASETS, {**replica_set, "status": desired}, subresource="status")

    def _pod(self, replica_set: Object) -> Object:
        template = copy.deepcopy(replica_set["spec"]["template"])
        metadata = {
            name: value
            for name, value in (template.get("metadata") or {}).items()
            if name in ("labels", "annotations", "finalizers")
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **metadata,
                "generateName": replica_set["metadata"]["name"] + "-",
                "namespace": replica_set["metadata"]["namespace"],
                "ownerReferences": [controller_reference(replica_set)],
            },
            "spec": template["spec"],
        }
