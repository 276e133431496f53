"""Pods that have to leave a tainted node: the loop around `tainteviction.evict_at`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.controllers.tainteviction import evict_at
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, name_of, spec_of, uid_of
from trainshed.kube.meta.pods import is_finished
from trainshed.kube.meta.resources import NODES, PODS
from trainshed.kube.meta.times import format_time, time_or_none
from trainshed.kube.patch.types import STRATEGIC


class TaintEvictionController(Controller[Key]):
    """Deletes pods that do not tolerate a NoExecute taint of their node, or no longer."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("taint-eviction", informers)
        self._client = client
        self._now = now
        self._since: dict[tuple[str, str, str, str], float] = {}
        """When a taint that does not say since when it is there was first seen: node, key, value, effect."""
        self._due: dict[Key, float] = {}
        self._recorder = EventRecorder(client, "taint-eviction-controller")
        self._pods = self.watch(informers.of(PODS), lambda pod: [key_of(pod)], regards=_regarded)
        self._on_node = self._pods.index(lambda pod: [str(spec_of(pod).get("nodeName") or "")])
        self._nodes = self.watch(
            informers.of(NODES),
            lambda node: [key_of(pod) for pod in self._on_node.get(name_of(node))],
            regards=lambda node: spec_of(node).get("taints"),
        )

    async def reconcile(self, key: Key) -> float | None:
        """Delete the pod if it has to go now; return when to look again."""
        pod = self._pods.get(*key)
        node = None if pod is None else self._nodes.get("", str(spec_of(pod).get("nodeName") or ""))
        if pod is None or node is None or is_terminating(pod) or is_finished(pod):
            self._due.pop(key, None)
            return None
        due = evict_at(pod, self._taints(node))
        before = self._due.pop(key, None)
        if due is None:
            if before is not None:
                self._recorder.event(
                    pod, "Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {'/'.join(key)}"
                )
            return None
        left = due - self._now()
        if left > 0:
            self._due[key] = due
            return left
        await self._evict(key, pod)
        return None

    def _taints(self, node: Object) -> list[tuple[Object, float]]:
        name, now = name_of(node), self._now()
        found: dict[tuple[str, str, str, str], float] = {}
        out = []
        for taint in spec_of(node).get("taints") or ():
            ident = (name, str(taint.get("key")), str(taint.get("value", "")), str(taint.get("effect")))
            since = time_or_none(taint.get("timeAdded"))
            if since is None:
                since = found[ident] = self._since.get(ident, now)
            out.append((taint, since))
        for ident in [ident for ident in self._since if ident[0] == name]:
            del self._since[ident]
        self._since |= found
        return out

    async def _evict(self, key: Key, pod: Object) -> None:
        mark = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._now()),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [mark]}}
        self._recorder.event(
            pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {'/'.join(key)}"
        )
        try:
            await self._client.patch(PODS, key[1], key[0], patch, patch_type=STRATEGIC, subresource="status")
            await self._client.delete(PODS, key[1], key[0], uid=uid_of(pod))
        except ApiError as error:
            if error.code not in (404, 409, 422):  # gone, or another pod has the name
                raise


def _regarded(pod: Object) -> object:
    spec = spec_of(pod)
    return spec.get("nodeName"), spec.get("tolerations"), is_finished(pod), is_terminating(pod)
