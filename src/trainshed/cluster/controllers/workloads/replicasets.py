"""ReplicaSets: as many pods of a template as asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainshed.client.client import Client
from trainshed.client.controllers.batches import slow_start
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers, key_of
from trainshed.client.controllers.ownwrites import LOOK_AGAIN_SECONDS, OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.workloads.deletion import delete_pods
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import adoption, controller_of, family, orphans_of, without_owner
from trainshed.kube.meta.pods import available_in, from_template, is_active, is_ready, surplus
from trainshed.kube.meta.resources import PODS, REPLICASETS
from trainshed.kube.meta.selectors import LabelSelector

Key = tuple[str, str]


def replica_status(replica_set: Object, pods: Sequence[Object], now: float) -> tuple[Object, float | None]:
    """Return the status that the active pods amount to, and in how many seconds another becomes available.

    Zero counts other than `replicas` are left out, as on the wire.
    """
    labels = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    waits = [available_in(pod, int(replica_set["spec"].get("minReadySeconds") or 0), now) for pod in pods]
    counts = {
        "fullyLabeledReplicas": sum(
            labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in pods
        ),
        "readyReplicas": sum(is_ready(pod) for pod in pods),
        "availableReplicas": sum(wait == 0 for wait in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    status = {"replicas": len(pods), **{name: count for name, count in counts.items() if count}}
    return status, min((wait for wait in waits if wait), default=None)


class ReplicaSetController:
    """Creates, adopts and deletes pods until each ReplicaSet has what it asks for."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._sets = informers.of(REPLICASETS)
        self._pods = informers.of(PODS)
        self._by_controller = informers.by_controller(PODS)
        self._own: OwnWrites[Key] = OwnWrites(self._pods)
        self._events = EventRecorder(client, "replicaset-controller")
        self._controller: Controller[Key] = Controller("replicasets", self._reconcile, workers=4)
        self._sets.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        self._pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informers.wait_synced()
        await self._controller.run()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        for pod in (old, new):
            owner = controller_of(pod) if pod is not None else None
            if owner is not None and owner["kind"] == "ReplicaSet":
                self._controller.enqueue((new["metadata"]["namespace"], owner["name"]))
        if controller_of(new) is None and change != "DELETED":
            self._offer_orphan(new)

    def _offer_orphan(self, pod: Object) -> None:
        labels = pod["metadata"].get("labels") or {}
        if not labels:
            return
        for replica_set in self._sets.items():
            if replica_set["metadata"]["namespace"] == pod["metadata"]["namespace"] and _selector(
                replica_set
            ).matches(labels):
                self._controller.enqueue(key_of(replica_set))

    async def _reconcile(self, key: Key) -> float | None:
        replica_set = self._sets.get(*key)
        if replica_set is None or replica_set["metadata"].get("deletionTimestamp"):
            return None
        if self._own.pending(key):
            return LOOK_AGAIN_SECONDS
        pods = [pod for pod in await self._family(key, replica_set) if is_active(pod)]
        status, wait = replica_status(replica_set, pods, self._now())
        missing = int(replica_set["spec"].get("replicas", 1)) - len(pods)
        try:
            if missing > 0:
                await self._create(key, replica_set, missing)
            elif missing < 0:
                await delete_pods(self._client, self._own, self._events, replica_set, surplus(pods, -missing))
        finally:
            # Written also when a pod was refused: the status is about the pods that are there.
            if replica_set.get("status") != status:
                updated = {**replica_set, "status": status}
                await self._client.update(REPLICASETS, updated, subresource="status")
        return wait

    async def _family(self, key: Key, replica_set: Object) -> list[Object]:
        """Return the set's pods, after taking over or letting go of those whose labels say so."""
        uid = replica_set["metadata"]["uid"]
        candidates = [*self._by_controller.get(uid), *self._by_controller.get(orphans_of(key[0]))]
        found = family(replica_set, candidates, _selector(replica_set))
        for pod in found.release:
            await self._patch(key, pod, without_owner(pod, uid))
        if found.adopt:
            # The mirror may not show yet that the set is being deleted with its pods orphaned.
            live = await self._client.get(REPLICASETS, key[1], key[0])
            if live["metadata"]["uid"] != uid or live["metadata"].get("deletionTimestamp"):
                return found.held
        for pod in found.adopt:
            await self._patch(key, pod, adoption(pod, replica_set))
        return [*found.held, *found.adopt]

    async def _patch(self, key: Key, pod: Object, patch: Object) -> None:
        self._own.record(key, await self._client.patch(PODS, pod["metadata"]["name"], key[0], patch))

    async def _create(self, key: Key, replica_set: Object, count: int) -> None:
        pod = from_template(replica_set, replica_set["spec"]["template"], generate_name=f"{key[1]}-")

        async def create(_: int) -> None:
            created = await self._client.create(PODS, pod)
            self._own.record(key, created)
            name = created["metadata"]["name"]
            self._events.event(replica_set, "Normal", "SuccessfulCreate", f"Created pod: {name}")

        try:
            await slow_start(range(count), create)
        except ApiError as error:
            self._events.event(replica_set, "Warning", "FailedCreate", f"Error creating: {error}")
            raise


def _selector(replica_set: Object) -> LabelSelector:
    return LabelSelector.from_object(replica_set["spec"].get("selector"))
