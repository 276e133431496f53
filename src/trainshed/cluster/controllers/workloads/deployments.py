"""Deployments: one ReplicaSet per pod template, scaled from the old ones to the new."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers, key_of
from trainshed.client.controllers.ownwrites import LOOK_AGAIN_SECONDS, OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.workloads import rollout
from trainshed.cluster.controllers.workloads.deployment_status import deployment_status
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.kube.meta.ownership import (
    adoption,
    controller_of,
    controller_reference,
    family,
    orphans_of,
    without_owner,
)
from trainshed.kube.meta.pods import FINISHED, phase
from trainshed.kube.meta.resources import DEPLOYMENTS, PODS, REPLICASETS
from trainshed.kube.meta.selectors import LabelSelector

Key = tuple[str, str]


class DeploymentController:
    """Rolls Deployments out and writes their status."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._deployments = informers.of(DEPLOYMENTS)
        self._sets = informers.of(REPLICASETS)
        self._sets_by_controller = informers.by_controller(REPLICASETS)
        self._pods_by_controller = informers.by_controller(PODS)
        self._own: OwnWrites[Key] = OwnWrites(self._sets)
        self._events = EventRecorder(client, "deployment-controller")
        self._controller: Controller[Key] = Controller("deployments", self._reconcile, workers=2)
        self._deployments.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        self._sets.add_handler(self._set_changed)
        informers.of(PODS).add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informers.wait_synced()
        await self._controller.run()

    def _set_changed(self, change: str, old: Object | None, new: Object) -> None:
        owner = controller_of(new)
        if owner is not None and owner["kind"] == "Deployment":
            self._controller.enqueue((new["metadata"]["namespace"], owner["name"]))
        elif owner is None:
            for deployment in self._deployments.items():  # there are few, and orphans are rare
                if deployment["metadata"]["namespace"] == new["metadata"]["namespace"]:
                    self._controller.enqueue(key_of(deployment))

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        """Only Recreate looks at pods: it waits for the last of the old ones to be gone."""
        owner = controller_of(new)
        if (
            owner is None
            or owner["kind"] != "ReplicaSet"
            or (change != "DELETED" and phase(new) not in FINISHED)
        ):
            return
        replica_set = self._sets.get(new["metadata"]["namespace"], owner["name"])
        if replica_set is not None:
            self._set_changed("MODIFIED", None, replica_set)

    async def _reconcile(self, key: Key) -> float | None:
        deployment = self._deployments.get(*key)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return None
        if self._own.pending(key):
            return LOOK_AGAIN_SECONDS
        sets = [
            rs for rs in await self._family(key, deployment) if not rs["metadata"].get("deletionTimestamp")
        ]
        new = rollout.new_set(deployment, sets)
        old = [rs for rs in sets if rs is not new]
        by_name = {rs["metadata"]["name"]: rs for rs in sets}
        scales = rollout.scales(deployment, new, old, old_pods=self._have_pods(old))
        for name, count in scales.items():
            if name:
                await self._scale(key, deployment, by_name[name], count)
            elif not await self._create(key, deployment, old, count):
                return LOOK_AGAIN_SECONDS
        if new is not None:
            await self._number(key, deployment, new, old)
        await self._prune(deployment, old)
        status, timeout = deployment_status(deployment, new, old, self._now())
        if status != deployment.get("status"):
            await self._client.update(DEPLOYMENTS, {**deployment, "status": status}, subresource="status")
        return timeout

    def _have_pods(self, sets: Sequence[Object]) -> bool:
        return any(
            phase(pod) not in FINISHED
            for rs in sets
            for pod in self._pods_by_controller.get(rs["metadata"]["uid"])
        )

    async def _family(self, key: Key, deployment: Object) -> list[Object]:
        """Return the Deployment's sets, after taking over or letting go of those whose labels say so."""
        uid = deployment["metadata"]["uid"]
        candidates = [*self._sets_by_controller.get(uid), *self._sets_by_controller.get(orphans_of(key[0]))]
        found = family(deployment, candidates, LabelSelector.from_object(deployment["spec"]["selector"]))
        for rs in found.release:
            await self._patch(key, rs, without_owner(rs, uid))
        if found.adopt:
            # The mirror may not show yet that the Deployment is being deleted with its sets orphaned.
            live = await self._client.get(DEPLOYMENTS, key[1], key[0])
            if live["metadata"]["uid"] != uid or live["metadata"].get("deletionTimestamp"):
                return found.held
        adopted = [await self._patch(key, rs, adoption(rs, deployment)) for rs in found.adopt]
        return [*found.held, *adopted]

    async def _patch(self, key: Key, replica_set: Object, patch: Object) -> Object:
        namespace, name = key_of(replica_set)
        patched = await self._client.patch(REPLICASETS, name, namespace, patch)
        self._own.record(key, patched)
        return patched

    async def _create(self, key: Key, deployment: Object, old: Sequence[Object], count: int) -> bool:
        """Create the set of the current template; return False when its name is taken."""
        before = deployment.get("status") or {}
        collisions = before.get("collisionCount", 0)
        replica_set = _replica_set(deployment, old, count, collisions)
        try:
            created = await self._client.create(REPLICASETS, replica_set)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            taken = await self._client.get(REPLICASETS, replica_set["metadata"]["name"], key[0])
            owner = controller_of(taken)
            free = owner is None or owner["uid"] == deployment["metadata"]["uid"]
            if free and rollout.new_set(deployment, [taken]) is not None:
                self._own.record(key, taken)  # ours from before: the mirror will show it
                return False
            status = {**before, "collisionCount": collisions + 1}
            await self._client.update(DEPLOYMENTS, {**deployment, "status": status}, subresource="status")
            return False
        self._own.record(key, created)
        self._tell_scaled(deployment, created, 0, count)
        return True

    async def _scale(self, key: Key, deployment: Object, replica_set: Object, count: int) -> None:
        have = rollout.replicas(replica_set)
        if have != count:
            version = replica_set["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": count}}
            await self._patch(key, replica_set, patch)
            self._tell_scaled(deployment, replica_set, have, count)

    def _tell_scaled(self, deployment: Object, replica_set: Object, have: int, count: int) -> None:
        direction = "up" if count > have else "down"
        text = f"Scaled {direction} replica set {replica_set['metadata']['name']} from {have} to {count}"
        self._events.event(deployment, "Normal", "ScalingReplicaSet", text)

    async def _number(self, key: Key, deployment: Object, new: Object, old: Sequence[Object]) -> None:
        """Give the new set the highest revision (a rollback makes an old one the newest), the Deployment the same."""
        revision = str(max(rollout.revision(new), 1 + max((rollout.revision(rs) for rs in old), default=0)))
        wanted = {**_copied_annotations(deployment), rollout.REVISION: revision}
        ready = deployment["spec"].get("minReadySeconds", 0)
        same = wanted.items() <= (new["metadata"].get("annotations") or {}).items()
        if not same or new["spec"].get("minReadySeconds", 0) != ready:
            patch = {"metadata": {"annotations": wanted}, "spec": {"minReadySeconds": ready}}
            await self._patch(key, new, patch)
        if (deployment["metadata"].get("annotations") or {}).get(rollout.REVISION) != revision:
            patch = {"metadata": {"annotations": {rollout.REVISION: revision}}}
            await self._client.patch(DEPLOYMENTS, key[1], key[0], patch)

    async def _prune(self, deployment: Object, old: Sequence[Object]) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
        empty = [rs for rs in old if not rollout.replicas(rs) and not rollout.count(rs, "replicas")]
        for replica_set in sorted(empty, key=rollout.revision)[: max(len(empty) - limit, 0)]:
            namespace, name = key_of(replica_set)
            uid = replica_set["metadata"]["uid"]
            try:
                await self._client.delete(
                    REPLICASETS, name, namespace, propagation_policy="Background", uid=uid
                )
            except ApiError as error:
                if error.code not in (404, 409):
                    raise


def _copied_annotations(deployment: Object) -> dict[str, str]:
    """Return the annotations that a set takes over, `kubernetes.io/change-cause` for `rollout history` above all."""
    ours = (rollout.REVISION, rollout.LAST_APPLIED)
    return {k: v for k, v in (deployment["metadata"].get("annotations") or {}).items() if k not in ours}


def _replica_set(deployment: Object, old: Sequence[Object], count: int, collisions: int) -> Object:
    metadata, spec = deployment["metadata"], deployment["spec"]
    wanted = rollout.template_hash(spec["template"], collisions)
    template, selector = copy_tree(spec["template"]), copy_tree(spec["selector"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), rollout.HASH_LABEL: wanted}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), rollout.HASH_LABEL: wanted}
    revision = 1 + max((rollout.revision(rs) for rs in old), default=0)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{wanted}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**_copied_annotations(deployment), rollout.REVISION: str(revision)},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": count,
            "selector": selector,
            "template": template,
            "minReadySeconds": spec.get("minReadySeconds", 0),
        },
    }
