"""The binding cycle: what was decided is carried out, several pods at a time. Binds, explains, has others give way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Worker
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer, Key, key_of
from trainshed.cluster.scheduler.placement import DEFAULT_SCHEDULER, Bind
from trainshed.cluster.scheduler.podgroups import COMING_SECONDS
from trainshed.cluster.scheduler.preemption import Preempt
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, uid_of
from trainshed.kube.meta.plan import Event, Plan
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.sparse import give_back
from trainshed.kube.meta.times import format_time
from trainshed.kube.patch.types import STRATEGIC

EXPLAINING = 6
"""How many pods are told at a time why they wait: nothing waits for that, and ten thousand that are created at once
keep neither their clients nor pods that have a node waiting."""
EXPLAIN_SECONDS = 1.0
"""A waiting pod's reason is not written more often than this: it changes with every pod that comes and goes."""


class BindingCycle:
    """Decisions that are made and not carried out yet, or not echoed by the watch.

    `failed(uid)`: a pod does not get the node that it was given. `again(pod, seconds)`: it is to be decided anew after
    so long, None for a failure's growing pause.
    """

    def __init__(
        self,
        client: Client,
        pods: Informer,
        recorder: EventRecorder,
        *,
        failed: Callable[[str], None],
        again: Callable[[Object, float | None], None],
    ) -> None:
        self._client = client
        self._pods = pods
        self._recorder = recorder
        self._failed = failed
        self._again = again
        self._decisions: dict[Key, tuple[str, Plan]] = {}
        """Pod uid and plan."""
        self._preempted: set[str] = set()
        """Uids of pods that were told to give way, and are still there."""
        self._explained: dict[Key, float] = {}
        self._binder: Worker[Key] = Worker("binder", self._act, workers=16)
        self._explainer: Worker[Key] = Worker("explainer", self._tell_why, workers=EXPLAINING)
        self._busy: set[Key] = set()
        """Pods of which something is being written: one thing at a time, in the order of the decisions."""
        self._renewed: set[Key] = set()
        """Those of them with another decision meanwhile."""

    async def run(self) -> None:
        """Carry out decisions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._binder.run())
            tasks.create_task(self._explainer.run())

    def start(self, pod: Object, plan: Plan, *, patient: bool = False) -> None:
        """Have a decision carried out; a patient explanation has time to become untrue."""
        key = key_of(pod)
        if key not in self._decisions and not (plan.actions or plan.events or plan.status):
            return
        self._decisions[key] = (uid_of(pod), plan)
        if patient and not node_of(plan) and key not in self._explained:
            now = asyncio.get_running_loop().time()
            self._explained[key] = now + COMING_SECONDS - EXPLAIN_SECONDS
        self._enqueue(key)

    def is_acting(self, key: Key) -> bool:
        """Return whether what was decided of the pod changes more than its status, and is not done yet."""
        return key in self._decisions and bool(self._decisions[key][1].actions)

    def has_node(self, pod: Object) -> bool:
        """Return whether the pod has a node by a decision that the watch has not shown yet."""
        uid, plan = self._decisions.get(key_of(pod), ("", None))
        return plan is not None and uid == uid_of(pod) and bool(node_of(plan))

    def forget(self, key: Key, uid: str) -> None:
        """Let go of a pod that has a node, or is over."""
        self._explained.pop(key, None)
        give_back(self._explained)
        if key in self._decisions and self._decisions[key][0] == uid:
            del self._decisions[key]
            give_back(self._decisions)

    def forget_victim(self, uid: str) -> None:
        """Let go of a pod that was told to give way, since it did."""
        self._preempted.discard(uid)

    def _enqueue(self, key: Key) -> None:
        if key in self._busy:
            self._renewed.add(key)
        else:
            (self._binder if self.is_acting(key) else self._explainer).enqueue(key)

    async def _act(self, key: Key) -> None:
        """Carry out a decision, unless it is one that changes no more than a status."""
        if self.is_acting(key):
            await self._alone(key)

    async def _tell_why(self, key: Key) -> None:
        """Carry out a decision that changes no more than a status."""
        if not self.is_acting(key):
            await self._alone(key)

    async def _alone(self, key: Key) -> None:
        """Carry out what was decided of a pod of which nothing else is being written; else it is done after that."""
        if key in self._busy:
            self._renewed.add(key)
            return
        self._busy.add(key)
        try:
            await self._carry_out(key)
        finally:
            self._busy.discard(key)
            if key in self._renewed:
                self._renewed.discard(key)
                self._enqueue(key)

    async def _carry_out(self, key: Key) -> None:
        uid, plan = self._decisions.get(key, ("", None))
        pod = self._pods.get(*key)
        if plan is None:
            return
        if pod is None or uid_of(pod) != uid:
            self._take_back(key, uid)
        elif node := node_of(plan):
            await self._bind(key, pod, node, plan.events)
        else:
            victims = [action for action in plan.actions if isinstance(action, Preempt)]
            for action in victims:
                await self._preempt(action)
            if self._decisions.get(key, ("", None))[1] is plan:
                del self._decisions[key]
            if victims:
                self._explained.pop(key, None)
            await self._explain(key, pod, plan)
            if victims:
                self._again(pod, EXPLAIN_SECONDS)

    async def _preempt(self, action: Preempt) -> None:
        """Tell a pod why it goes, and delete it, once."""
        victim = action.victim
        if victim.uid in self._preempted:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(time.time()),
        }
        patch = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        try:
            told = await self._client.patch(
                PODS, victim.name, victim.namespace, patch, patch_type=STRATEGIC, subresource="status"
            )
            await self._client.delete(PODS, victim.name, victim.namespace, uid=victim.uid)
        except ApiError as error:
            if error.code not in (404, 409, 422):  # gone, or another pod has the name
                raise
            return
        self._preempted.add(victim.uid)
        self._recorder.event(told, "Normal", "Preempted", action.text)

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
                self._again(pod, None)
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
            self._failed(uid)

    async def _explain(self, key: Key, pod: Object, plan: Plan) -> None:
        """Write why the pod waits, now or when it is time again."""
        if plan.status is None:
            return
        now = asyncio.get_running_loop().time()
        wait = self._explained.get(key, now - EXPLAIN_SECONDS) + EXPLAIN_SECONDS - now
        if wait > 0:
            self._again(pod, wait)
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


def node_of(plan: Plan) -> str:
    """Return the node that the plan binds to, empty when the pod waits."""
    return next((action.node for action in plan.actions if isinstance(action, Bind)), "")
