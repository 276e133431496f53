"""The loop around `place`: watches pods without a node, binds them or says why they wait."""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import UTC, datetime

from trainshed.client.client import Client
from trainshed.client.controller import Controller
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.informers import SharedInformers, key_of
from trainshed.cluster.scheduler.placement import DEFAULT_SCHEDULER, place
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import NODES, PERSISTENTVOLUMECLAIMS, PODS, Object

log = logging.getLogger(__name__)

Key = tuple[str, str]


class Scheduler:
    """Binds pods whose `schedulerName` is `default-scheduler`.

    One worker: each decision sees the ones before it. A pod that was bound but has not come back through the
    watch yet is remembered in `_assumed`, or two pods could take the same GPU.
    """

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._pods = informers.of(PODS)
        self._nodes = informers.of(NODES)
        self._claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._assumed: dict[Key, Object] = {}
        self._waiting: set[Key] = set()
        self._events = EventRecorder(client, DEFAULT_SCHEDULER)
        self._controller: Controller[Key] = Controller("scheduler", self._schedule, workers=1)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._capacity_changed)
        self._claims.add_handler(self._capacity_changed)

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._controller.run()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        key = key_of(new)
        bound = bool(new["spec"].get("nodeName"))
        if bound or change == "DELETED":
            self._assumed.pop(key, None)
            self._waiting.discard(key)
            finished = (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if change == "DELETED" or finished:
                self._retry_waiting()
        elif not new["metadata"].get("deletionTimestamp"):
            self._controller.enqueue(key)

    def _capacity_changed(self, change: str, old: Object | None, new: Object) -> None:
        self._retry_waiting()

    def _retry_waiting(self) -> None:
        for key in self._waiting:
            self._controller.enqueue(key)

    async def _schedule(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            self._waiting.discard(key)
            return None
        if key in self._assumed or pod["spec"].get("schedulerName", DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER:
            return None
        if pod["spec"].get("schedulingGates"):
            return None
        claims = {
            c["metadata"]["name"]: c for c in self._claims.items() if c["metadata"].get("namespace") == key[0]
        }
        placement = place(pod, list(self._nodes.items()), self._pods_by_node(), claims)
        if not placement.node:
            self._waiting.add(key)
            await self._explain(pod, placement.why_not)
            return None
        await self._bind(key, pod, placement.node)
        return None

    def _pods_by_node(self) -> dict[str, list[Object]]:
        by_node: dict[str, list[Object]] = defaultdict(list)
        for pod in self._pods.items():
            node = pod["spec"].get("nodeName")
            if node:
                by_node[node].append(pod)
        for pod in self._assumed.values():
            by_node[pod["spec"]["nodeName"]].append(pod)
        return by_node

    async def _bind(self, key: Key, pod: Object, node: str) -> None:
        self._assumed[key] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        try:
            await self._client.bind(key[1], key[0], node)
        except ApiError as error:
            self._assumed.pop(key, None)
            if error.code in (404, 409):  # gone, or bound by someone else: the watch will tell
                return
            raise
        self._waiting.discard(key)
        self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {key[0]}/{key[1]} to {node}")

    async def _explain(self, pod: Object, why_not: str) -> None:
        """Write the PodScheduled condition; unchanged words are not written again."""
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition.get("message") == why_not:
                return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why_not,
            "lastProbeTime": None,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        namespace, name = key_of(pod)
        try:
            await self._client.patch(
                PODS,
                name,
                namespace,
                {"status": {"conditions": [condition]}},
                patch_type="application/strategic-merge-patch+json",
                subresource="status",
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return
        self._events.event(pod, "Warning", "FailedScheduling", why_not)
