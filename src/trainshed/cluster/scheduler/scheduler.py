"""The loop around `placement.decide`: watches pods without a node, binds them or says why they wait.

    pod ──► reconcile: decide (one at a time, no waiting) ──► _carry_out (several at a time: bind, or explain)

A decision is held in the ledger from the moment that it is made, so the next one sees it although neither
the binding nor its echo through the watch has happened. If the binding fails, the pod is decided anew.
"""

from __future__ import annotations

import asyncio
import time

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller, Worker
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.scheduler.ledger import Ledger
from trainshed.cluster.scheduler.placement import DEFAULT_SCHEDULER, Bind, Observed, decide
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, status_of, uid_of
from trainshed.kube.meta.plan import Event, Plan
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import NODES, PERSISTENTVOLUMECLAIMS, PODS
from trainshed.kube.patch.types import STRATEGIC

EXPLAIN_SECONDS = 1.0
"""A waiting pod's reason is not written more often than this: it changes with every pod that comes and goes."""


class Scheduler(Controller[Key]):
    """Binds pods whose `schedulerName` is `default-scheduler`; higher priorities first, then older pods."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        super().__init__("scheduler", informers, workers=1)
        self._client = client
        self._ledger = Ledger()
        self._waiting: dict[Key, Object] = {}
        self._decisions: dict[Key, tuple[str, Plan]] = {}
        """Pod uid and plan that `_carry_out` has not finished, or that the watch has not echoed yet."""
        self._explained: dict[Key, float] = {}
        self._recorder = EventRecorder(client, DEFAULT_SCHEDULER)
        self._binder: Worker[Key] = Worker("binder", self._carry_out, workers=16)
        self._pods = informers.of(PODS)
        self._pods.add_handler(self._pod_changed)
        self._nodes = self.watch(informers.of(NODES), lambda _: self._in_turn(), regards=_offer)
        self._claims = self.watch(
            informers.of(PERSISTENTVOLUMECLAIMS), lambda _: self._in_turn(), regards=_offer
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._binder.run())

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        key, uid = key_of(new), new["metadata"]["uid"]
        node = new["spec"].get("nodeName")
        over = change == "DELETED" or phase(new) in FINISHED
        if node or over:
            self._forget(key, uid)
        if over:
            if self._ledger.release(uid):
                self._retry_waiting()
        elif node:
            if old is None or old["spec"] != new["spec"]:
                self._ledger.hold(uid, node, pod_requests(new))
        else:
            self.enqueue(key)

    def _forget(self, key: Key, uid: str) -> None:
        self._waiting.pop(key, None)
        self._explained.pop(key, None)
        if key in self._decisions and self._decisions[key][0] == uid:
            del self._decisions[key]

    def _in_turn(self) -> list[Key]:
        """Return the waiting pods in the order in which they are decided."""
        return sorted(self._waiting, key=lambda key: _turn(self._waiting[key]))

    def _retry_waiting(self) -> None:
        for key in self._in_turn():
            self.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        """Decide about one pod; never waits."""
        pod = self._pods.get(*key)
        if pod is None or not _wants_node(pod):
            self._waiting.pop(key, None)
            return None
        if key in self._decisions and _node(self._decisions[key][1]):
            return None
        claims = {
            name: claim for name in claim_names(pod) if (claim := self._claims.get(key[0], name)) is not None
        }
        plan = decide(Observed(pod, self._nodes.items(), self._ledger.used(), claims, time.time()))
        uid = uid_of(pod)
        self._decisions[key] = (uid, plan)
        if node := _node(plan):
            self._waiting.pop(key, None)
            self._ledger.hold(uid, node, pod_requests(pod))
        elif not pod["spec"].get("schedulingGates"):
            self._waiting[key] = pod
        self._binder.enqueue(key)
        return None

    async def _carry_out(self, key: Key) -> float | None:
        uid, plan = self._decisions.get(key, ("", None))
        pod = self._pods.get(*key)
        if plan is None:
            return None
        if pod is None or uid_of(pod) != uid:
            self._take_back(key, uid)
        elif node := _node(plan):
            await self._bind(key, pod, node, plan.events)
        else:
            del self._decisions[key]
            await self._explain(key, pod, plan)
        return None

    async def _bind(self, key: Key, pod: Object, node: str, events: tuple[Event, ...]) -> None:
        """Bind; when the answer is lost, `TransportError` brings us back with the decision as it is."""
        uid = uid_of(pod)
        try:
            await self._client.bind(key[1], key[0], node)
        except ApiError as error:
            if error.code == 409 and await self._is_bound(key, uid):
                return  # by an earlier try: the watch will show where
            self._take_back(key, uid)
            if error.code not in (404, 409):
                self.queue.add_rate_limited(key)
            return
        self._tell(pod, events)

    async def _is_bound(self, key: Key, uid: str) -> bool:
        try:
            live = await self._client.get(PODS, key[1], key[0])
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return live["metadata"]["uid"] == uid and bool(live["spec"].get("nodeName"))

    def _take_back(self, key: Key, uid: str) -> None:
        """Undo a decision, unless the watch has shown it to be true meanwhile."""
        if key in self._decisions and self._decisions[key][0] == uid:
            del self._decisions[key]
            if self._ledger.release(uid):
                self._retry_waiting()

    async def _explain(self, key: Key, pod: Object, plan: Plan) -> None:
        """Write why the pod waits, now or when it is time again."""
        if plan.status is None:
            return
        now = asyncio.get_running_loop().time()
        wait = self._explained.get(key, now - EXPLAIN_SECONDS) + EXPLAIN_SECONDS - now
        if wait > 0:
            self.queue.add_after(key, wait)
            return
        self._explained[key] = now
        patch = {"metadata": {"uid": uid_of(pod)}, "status": plan.status}
        try:
            await self._client.patch(PODS, key[1], key[0], patch, patch_type=STRATEGIC, subresource="status")
        except ApiError as error:
            if error.code not in (404, 409, 422):  # gone, or another pod has the name
                raise
            return
        self._tell(pod, plan.events)

    def _tell(self, pod: Object, events: tuple[Event, ...]) -> None:
        for event in events:
            self._recorder.event(pod, event.type, event.reason, event.message)


def _node(plan: Plan) -> str:
    """Return the node that the plan binds to, empty when the pod waits."""
    return next((action.node for action in plan.actions if isinstance(action, Bind)), "")


def _wants_node(pod: Object) -> bool:
    return (
        not pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and phase(pod) not in FINISHED
        and pod["spec"].get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    )


def _turn(pod: Object) -> tuple[int, str]:
    return -int(pod["spec"].get("priority") or 0), str(pod["metadata"]["creationTimestamp"])


def _offer(obj: Object) -> tuple[object, ...]:
    """Return what of a node or claim decides over pods: not the heartbeats."""
    status = status_of(obj)
    ready = [c.get("status") for c in status.get("conditions") or () if c["type"] == "Ready"]
    metadata = obj["metadata"]
    return (
        obj.get("spec"),
        metadata.get("labels"),
        metadata.get("deletionTimestamp"),
        status.get("allocatable"),
        status.get("phase"),
        ready,
    )
