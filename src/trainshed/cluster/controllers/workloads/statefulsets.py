"""StatefulSets: pods with names and claims of their own. The loop around `statefulset.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.kube.meta.objects import Object, is_terminating, name_of, namespace_of
from trainshed.kube.meta.ownership import orphans_of
from trainshed.kube.meta.resources import CONTROLLERREVISIONS, PERSISTENTVOLUMECLAIMS, PODS, STATEFULSETS


class StatefulSetController(Controller[Key]):
    """Makes, replaces and ends the pods and claims of each StatefulSet, in order."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("statefulsets", informers, workers=4)
        self._now = now
        self._sets = self.watch(informers.of(STATEFULSETS), lambda stateful_set: [key_of(stateful_set)])
        pods = self.watch(informers.of(PODS), controlled_by(STATEFULSETS))
        revisions = self.watch(informers.of(CONTROLLERREVISIONS), controlled_by(STATEFULSETS))
        claims = self.watch(informers.of(PERSISTENTVOLUMECLAIMS), self._of_claim)
        self._pods = informers.by_controller(PODS)
        self._revisions = informers.by_controller(CONTROLLERREVISIONS)
        self._claims = claims.index(lambda claim: [namespace_of(claim)])
        recorder = EventRecorder(client, "statefulset-controller")
        self._executor = Executor(client, recorder, self.own, self._sets, [pods, revisions, claims])

    def _of_claim(self, claim: Object) -> list[Key]:
        """Return the sets whose claim it may be: a claim that is gone is made again."""
        namespace, name = namespace_of(claim), name_of(claim)
        return [
            key_of(stateful_set)
            for stateful_set in self._sets.items()
            if namespace_of(stateful_set) == namespace and f"-{name_of(stateful_set)}-" in name
        ]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one StatefulSet a step on."""
        stateful_set = self._sets.get(*key)
        if stateful_set is None or is_terminating(stateful_set):
            return None
        # It comes with the first: most clusters have none.
        from trainshed.cluster.controllers.workloads.statefulset import Observed, decide

        uid = stateful_set["metadata"]["uid"]
        observed = Observed(
            stateful_set,
            pods=[*self._pods.get(uid), *self._pods.get(orphans_of(key[0]))],
            revisions=[*self._revisions.get(uid), *self._revisions.get(orphans_of(key[0]))],
            claims={name_of(claim): claim for claim in self._claims.get(key[0])},
            now=self._now(),
        )
        plan = decide(observed)
        await self._executor.execute(key, stateful_set, plan)
        return plan.requeue_after
