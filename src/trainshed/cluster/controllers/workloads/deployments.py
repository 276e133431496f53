"""Deployments: one ReplicaSet per pod template, scaled from the old ones to the new. See `deployment.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.controllers.workloads import rollout
from trainshed.cluster.controllers.workloads.deployment import Observed, decide
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, name_of, status_of
from trainshed.kube.meta.ownership import controller_of, orphans_of
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.pods import FINISHED, phase
from trainshed.kube.meta.resources import DEPLOYMENTS, PODS, REPLICASETS

TAKEN_SECONDS = 0.2
"""When to look again after a set's name was found to be taken."""


class DeploymentController(Controller[Key]):
    """Rolls Deployments out and writes their status."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("deployments", informers, workers=2)
        self._client = client
        self._now = now
        self._deployments = self.watch(informers.of(DEPLOYMENTS), lambda deployment: [key_of(deployment)])
        self._sets = self.watch(informers.of(REPLICASETS), self._of_set)
        self._sets_by_controller = informers.by_controller(REPLICASETS)
        self._pods_by_controller = informers.by_controller(PODS)
        self.watch(informers.of(PODS), self._of_pod, regards=_is_over)
        recorder = EventRecorder(client, "deployment-controller")
        self._executor = Executor(client, recorder, self.own, self._deployments, [self._sets])

    def _of_set(self, replica_set: Object) -> list[Key]:
        """Return the Deployment that controls the set; of an orphan, all of its namespace: there are few."""
        owner = controller_of(replica_set)
        namespace = replica_set["metadata"]["namespace"]
        if owner is not None:
            return [(namespace, owner["name"])] if owner["kind"] == "Deployment" else []
        return [key for obj in self._deployments.items() if (key := key_of(obj))[0] == namespace]

    def _of_pod(self, pod: Object) -> list[Key]:
        """Only Recreate looks at pods: it waits for the last of the old ones to be gone."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "ReplicaSet":
            return []
        replica_set = self._sets.get(pod["metadata"]["namespace"], owner["name"])
        return self._of_set(replica_set) if replica_set is not None else []

    async def reconcile(self, key: Key) -> float | None:
        """Bring one Deployment a step on."""
        deployment = self._deployments.get(*key)
        if deployment is None or is_terminating(deployment):
            return None
        own = self._sets_by_controller.get(deployment["metadata"]["uid"])
        busy = [uid for rs in own if self._has_pods(uid := rs["metadata"]["uid"])]
        sets = [*own, *self._sets_by_controller.get(orphans_of(key[0]))]
        plan = decide(Observed(deployment, sets, busy, self._now()))
        try:
            await self._executor.execute(key, deployment, plan)
        except ApiError as error:
            made = [action.object for action in plan.actions if isinstance(action, Create)]
            if error.reason != "AlreadyExists" or not made:
                raise
            await self._look_at_taken(key, deployment, name_of(made[0]))
            return TAKEN_SECONDS
        return plan.requeue_after

    def _has_pods(self, uid: str) -> bool:
        return any(not _is_over(pod) for pod in self._pods_by_controller.get(uid))

    async def _look_at_taken(self, key: Key, deployment: Object, name: str) -> None:
        """Wait for a set of ours that the mirror does not show yet; choose another name when it is somebody else's."""
        taken = await self._client.get(REPLICASETS, name, key[0])
        owner = controller_of(taken)
        free = owner is None or owner["uid"] == deployment["metadata"]["uid"]
        if free and rollout.new_set(deployment, [taken]) is not None:
            self.own.wrote(key, self._sets, taken)
            return
        collisions = int(status_of(deployment).get("collisionCount") or 0)
        patch = {"status": {"collisionCount": collisions + 1}}
        patched = await self._client.patch(DEPLOYMENTS, key[1], key[0], patch, subresource="status")
        self.own.wrote(key, self._deployments, patched)


def _is_over(pod: Object) -> bool:
    return phase(pod) in FINISHED
