"""ReplicaSets and ReplicationControllers: as many pods of a template as asked for. The loop around `decide`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.controllers.workloads.replicafailure import with_failure
from trainshed.cluster.controllers.workloads.replicaset import Observed, decide, selector_of
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, section, spec_of
from trainshed.kube.meta.ownership import controller_of, orphans_of
from trainshed.kube.meta.plan import Create, Plan
from trainshed.kube.meta.resources import PODS, REPLICASETS, REPLICATIONCONTROLLERS


class ReplicaSetController(Controller[Key]):
    """Creates, adopts and deletes pods until each ReplicaSet has what it asks for."""

    resource = REPLICASETS
    component = "replicaset-controller"

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__(self.resource.plural, informers, workers=4)
        self._now = now
        self._sets = self.watch(informers.of(self.resource), lambda replica_set: [key_of(replica_set)])
        pods = self.watch(informers.of(PODS), self._concerned)
        self._pods = informers.by_controller(PODS)
        recorder = EventRecorder(client, self.component)
        self._executor = Executor(client, recorder, self.own, self._sets, [pods])

    def view(self, replica_set: Object) -> Object:
        """Return the object as a ReplicaSet."""
        return replica_set

    def _concerned(self, pod: Object) -> list[Key]:
        """Return the set that controls the pod; of an orphan, those that select it."""
        owner = controller_of(pod)
        namespace, labels = pod["metadata"]["namespace"], section(pod["metadata"], "labels")
        if owner is not None:
            return [(namespace, owner["name"])] if owner["kind"] == self.resource.kind else []
        if not labels:
            return []
        return [
            key_of(replica_set)
            for replica_set in self._sets.items()
            if replica_set["metadata"]["namespace"] == namespace
            and selector_of(self.view(replica_set)).matches(labels)
        ]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one ReplicaSet a step on."""
        replica_set = self._sets.get(*key)
        if replica_set is None or is_terminating(replica_set):
            return None
        pods = [*self._pods.get(replica_set["metadata"]["uid"]), *self._pods.get(orphans_of(key[0]))]
        plan = decide(Observed(self.view(replica_set), pods, self._now()))
        try:
            await self._executor.execute(key, replica_set, plan)
        except ApiError as error:
            await self._tell_failure(key, {**replica_set, "status": plan.status}, plan, str(error))
            raise
        return plan.requeue_after

    async def _tell_failure(self, key: Key, replica_set: Object, plan: Plan, message: str) -> None:
        """Have the status say that pods were refused. It is not what the reconcile ends with: that is the refusal."""
        makes = any(isinstance(action, Create) for action in plan.actions)
        status = with_failure(replica_set, 1 if makes else -1, message, self._now())
        if plan.status is None or status is None:
            return
        with contextlib.suppress(ApiError):
            await self._executor.execute(key, self._sets.get(*key) or replica_set, Plan(status=status))


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers, whose selector is a plain map of labels."""

    resource = REPLICATIONCONTROLLERS
    component = "replication-controller"

    def view(self, replica_set: Object) -> Object:
        """Return the object with a selector like that of a ReplicaSet."""
        spec = spec_of(replica_set)
        return {**replica_set, "spec": {**spec, "selector": {"matchLabels": section(spec, "selector")}}}
