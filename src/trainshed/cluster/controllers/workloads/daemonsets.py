"""DaemonSets: a pod on each node. The loop around `daemonset.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.kube.meta.objects import Object, is_terminating, spec_of
from trainshed.kube.meta.ownership import orphans_of
from trainshed.kube.meta.resources import CONTROLLERREVISIONS, DAEMONSETS, NODES, PODS


class DaemonSetController(Controller[Key]):
    """Keeps a pod of each DaemonSet on each node that it is for."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("daemonsets", informers, workers=2)
        self._now = now
        self._sets = self.watch(informers.of(DAEMONSETS), lambda daemon_set: [key_of(daemon_set)])
        pods = self.watch(informers.of(PODS), controlled_by(DAEMONSETS))
        revisions = self.watch(informers.of(CONTROLLERREVISIONS), controlled_by(DAEMONSETS))
        self._nodes = self.watch(informers.of(NODES), self._all, regards=_regarded)
        self._pods = informers.by_controller(PODS)
        self._revisions = informers.by_controller(CONTROLLERREVISIONS)
        recorder = EventRecorder(client, "daemonset-controller")
        self._executor = Executor(client, recorder, self.own, self._sets, [pods, revisions])

    def _all(self, node: Object) -> list[Key]:
        return [key_of(daemon_set) for daemon_set in self._sets.items()]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one DaemonSet a step on."""
        daemon_set = self._sets.get(*key)
        if daemon_set is None or is_terminating(daemon_set):
            return None
        # It comes with the first: most clusters have none.
        from trainshed.cluster.controllers.workloads.daemonset import Observed, decide

        uid = daemon_set["metadata"]["uid"]
        observed = Observed(
            daemon_set,
            pods=[*self._pods.get(uid), *self._pods.get(orphans_of(key[0]))],
            revisions=[*self._revisions.get(uid), *self._revisions.get(orphans_of(key[0]))],
            nodes=list(self._nodes.items()),
            now=self._now(),
        )
        plan = decide(observed)
        await self._executor.execute(key, daemon_set, plan)
        return plan.requeue_after


def _regarded(node: Object) -> object:
    """Return what decides whether a daemon is for a node: heartbeats change nothing of it."""
    return node["metadata"].get("labels"), spec_of(node)
