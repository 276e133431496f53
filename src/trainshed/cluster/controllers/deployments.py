"""Deployments: one ReplicaSet per pod template, scaled from the old ones to the new."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.cluster.controllers import rollout
from trainshed.cluster.controllers.informers import SharedInformers, key_of
from trainshed.cluster.controllers.ownership import controlled_by, controller_of, controller_reference
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import DEPLOYMENTS, REPLICASETS, Object

Key = tuple[str, str]


class DeploymentController:
    """Rolls Deployments out and writes their status."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._deployments = informers.of(DEPLOYMENTS)
        self._sets = informers.of(REPLICASETS)
        self._controller: Controller[Key] = Controller("deployments", self._reconcile)
        self._deployments.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        self._sets.add_handler(self._set_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._controller.run()

    def _set_changed(self, change: str, old: Object | None, new: Object) -> None:
        owner = controller_of(new)
        if owner is not None and owner["kind"] == "Deployment":
            self._controller.enqueue((new["metadata"]["namespace"], owner["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        deployment = self._deployments.get(*key)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return None
        sets = controlled_by(deployment, self._sets.items())
        wanted = rollout.template_hash(deployment["spec"]["template"])
        new = next((rs for rs in sets if rs["metadata"]["labels"].get(rollout.HASH_LABEL) == wanted), None)
        old = [rs for rs in sets if rs is not new]
        try:
            for name, count in rollout.scales(deployment, new, old).items():
                if not name:
                    new = await self._create(deployment, old, wanted, count)
                else:
                    await self._scale(next(rs for rs in sets if rs["metadata"]["name"] == name), count)
            await self._number(deployment, new)
            await self._prune(deployment, old)
            status = rollout.status(deployment, new, old, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            if status != deployment.get("status"):
                await self._client.update(DEPLOYMENTS, {**deployment, "status": status}, subresource="status")
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return 0.05
        return None

    async def _create(self, deployment: Object, old: list[Object], wanted: str, count: int) -> Object:
        metadata = deployment["metadata"]
        template = copy.deepcopy(deployment["spec"]["template"])
        labels = {**(template.get("metadata") or {}).get("labels", {}), rollout.HASH_LABEL: wanted}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = copy.deepcopy(deployment["spec"]["selector"])
        selector["matchLabels"] = {**selector.get("matchLabels", {}), rollout.HASH_LABEL: wanted}
        revision = 1 + max((_revision(rs) for rs in old), default=0)
        return await self._client.create(
            REPLICASETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{metadata['name']}-{wanted}",
                    "namespace": metadata["namespace"],
                    "labels": labels,
                    "annotations": {rollout.REVISION: str(revision)},
                    "ownerReferences": [controller_reference(deployment)],
                },
                "spec": {"replicas": count, "selector": selector, "template": template},
            },
        )

    async def _scale(self, replica_set: Object, count: int) -> None:
        if replica_set["spec"].get("replicas", 1) != count:
            namespace, name = key_of(replica_set)
            version = replica_set["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": count}}
            await self._client.patch(REPLICASETS, name, namespace, patch)

    async def _number(self, deployment: Object, new: Object | None) -> None:
        """Copy the new ReplicaSet's revision to the Deployment; a rollback makes an old one the newest."""
        if new is None:
            return
        sets = controlled_by(deployment, self._sets.items())
        others = max(
            (_revision(rs) for rs in sets if rs["metadata"]["name"] != new["metadata"]["name"]), default=0
        )
        revision = str(max(_revision(new), others + 1))
        namespace, name = key_of(new)
        patch = {"metadata": {"annotations": {rollout.REVISION: revision}}}
        if str(_revision(new)) != revision:
            await self._client.patch(REPLICASETS, name, namespace, patch)
        annotations = deployment["metadata"].get("annotations") or {}
        if annotations.get(rollout.REVISION) != revision:
            await self._client.patch(DEPLOYMENTS, deployment["metadata"]["name"], namespace, patch)

    async def _prune(self, deployment: Object, old: list[Object]) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
        empty = [
            rs
            for rs in old
            if not rs["spec"].get("replicas") and not (rs.get("status") or {}).get("replicas")
        ]
        for replica_set in sorted(empty, key=_revision)[: max(len(empty) - limit, 0)]:
            namespace, name = key_of(replica_set)
            await self._client.delete(REPLICASETS, name, namespace, propagation_policy="Background")


def _revision(obj: Object) -> int:
    value = (obj["metadata"].get("annotations") or {}).get(rollout.REVISION, "0")
    return int(value) if value.isdigit() else 0
