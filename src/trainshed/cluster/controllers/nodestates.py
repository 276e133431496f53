"""Nodes that are no longer heard of: the loop around `nodestate.decide`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.nodestate import Observed, decide, is_silent_condition, not_ready
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, condition, name_of, namespace_of, spec_of, status_of, uid_of
from trainshed.kube.meta.pods import is_finished
from trainshed.kube.meta.resources import LEASES, NODES, PODS
from trainshed.kube.patch.types import STRATEGIC

LEASE_NAMESPACE = "kube-node-lease"
GRACE_SECONDS = 40.0
"""How long a node may be silent (kube-controller-manager, --node-monitor-grace-period)."""
LOOK_AGAIN_SECONDS = 5.0
"""A silent node is looked at once more after this: the machine may have been busy, or asleep."""


class NodeStateController(Controller[str]):
    """Marks nodes whose Lease ends, and taints those that are not ready or cordoned. Nodes without a Lease are only
    tainted: nobody promised to be heard of.
    """

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        *,
        grace: float = GRACE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("nodes", informers)
        self._client = client
        self._grace = grace
        self._now = now
        self._heard: dict[str, tuple[object, float]] = {}
        """What a Lease says by the node's name, and since when, on the loop's clock: other clocks are set."""
        self._missed: set[str] = set()
        self._recorder = EventRecorder(client, "node-controller")
        self._nodes = self.watch(informers.of(NODES), lambda node: [name_of(node)], regards=_regarded)
        self._leases = self.watch(
            informers.of(LEASES),
            lambda lease: [name_of(lease)] if namespace_of(lease) == LEASE_NAMESPACE else [],
        )
        self._pods = informers.of(PODS)
        self._on_node = self._pods.index(lambda pod: [str(spec_of(pod).get("nodeName") or "")])

    async def reconcile(self, key: str) -> float | None:
        """Bring conditions and taints of one node up to date."""
        node = self._nodes.get("", key)
        if node is None:
            self._heard.pop(key, None)
            self._missed.discard(key)
            return None
        silent, look_again = self._listen(node)
        plan = decide(Observed(node, silent, self._now()))
        if plan.status is not None:
            patch = {"metadata": {"uid": uid_of(node)}, "status": plan.status}
            node = await self._client.patch(
                NODES, key, None, patch, patch_type=STRATEGIC, subresource="status"
            )
        for action in plan.actions:
            # With the version: taints are a list that others write, too.
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            await self._client.patch(
                NODES, key, None, {"metadata": metadata, "spec": {"taints": action.taints or None}}
            )
        for event in plan.events:
            self._recorder.event(node, event.type, event.reason, event.message)
        if silent or is_silent_condition(node):
            await self._mark_pods(key)
        return look_again

    def _listen(self, node: Object) -> tuple[bool, float | None]:
        """Return whether the node is silent, and when to listen again. That it says it is ready is heard, too."""
        name, ready = name_of(node), condition(node, "Ready") or {}
        lease = self._leases.get(LEASE_NAMESPACE, name)
        if lease is None:
            return False, None
        now = asyncio.get_running_loop().time()
        said = spec_of(lease).get("renewTime"), ready.get("status") == "True"
        if name not in self._heard or self._heard[name][0] != said:
            self._heard[name] = (said, now)
            self._missed.discard(name)
        left = self._heard[name][1] + self._grace - now
        if left > 0:
            return False, left
        if name not in self._missed:
            self._missed.add(name)
            return False, min(LOOK_AGAIN_SECONDS, self._grace)
        return True, None

    async def _mark_pods(self, name: str) -> None:
        """Let nobody be sent to pods on the node."""
        for pod in self._on_node.get(name):
            conditions = not_ready(pod, self._now())
            if conditions is None or is_finished(pod):
                continue
            patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": conditions}}
            try:
                await self._client.patch(
                    PODS, name_of(pod), namespace_of(pod), patch, patch_type=STRATEGIC, subresource="status"
                )
            except ApiError as error:
                if error.code not in (404, 409, 422):
                    raise
                continue
            self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


def _regarded(node: Object) -> object:
    conditions = [(c.get("type"), c.get("status")) for c in status_of(node).get("conditions") or ()]
    return conditions, spec_of(node).get("unschedulable"), spec_of(node).get("taints")
