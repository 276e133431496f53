"""The loop around `place`: watches pods without a node, binds them or says why they wait.

    pod ──► _decide (one at a time, no waiting) ──► _carry_out (several at a time: bind, or explain)

A decision is held in the ledger from the moment that it is made, so the next one sees it although neither
the binding nor its echo through the watch has happened. If the binding fails, the pod is decided anew.
"""

from __future__ import annotations

import asyncio
import time

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers, key_of
from trainshed.client.events import EventRecorder
from trainshed.cluster.scheduler.ledger import Ledger
from trainshed.cluster.scheduler.placement import DEFAULT_SCHEDULER, Placement, place
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import NODES, PERSISTENTVOLUMECLAIMS, PODS
from trainshed.kube.meta.times import format_time
from trainshed.kube.patch.types import STRATEGIC

Key = tuple[str, str]

GATED = Placement(why_not="Scheduling is blocked due to non-empty scheduling gates")
EXPLAIN_SECONDS = 1.0
"""A waiting pod's reason is not written more often than this: it changes with every pod that comes and goes."""

UNREGARDED = "pods are placed without regard to other pods"


class Scheduler:
    """Binds pods whose `schedulerName` is `default-scheduler`; higher priorities first, then older pods."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        self._client = client
        self._informers = informers
        self._pods = informers.of(PODS)
        self._nodes = informers.of(NODES)
        self._claims = informers.of(PERSISTENTVOLUMECLAIMS)
        self._ledger = Ledger()
        self._waiting: dict[Key, Object] = {}
        self._decisions: dict[Key, tuple[str, Placement]] = {}
        """Pod uid and decision that `_carry_out` has not finished, or that the watch has not echoed yet."""
        self._explained: dict[Key, float] = {}
        self._events = EventRecorder(client, DEFAULT_SCHEDULER)
        self._decider: Controller[Key] = Controller("scheduler", self._decide, workers=1)
        self._binder: Controller[Key] = Controller("binder", self._carry_out, workers=16)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._capacity_changed)
        self._claims.add_handler(self._capacity_changed)

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._decider.run())
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
            self._decider.enqueue(key)

    def _forget(self, key: Key, uid: str) -> None:
        self._waiting.pop(key, None)
        self._explained.pop(key, None)
        if key in self._decisions and self._decisions[key][0] == uid:
            del self._decisions[key]

    def _capacity_changed(self, change: str, old: Object | None, new: Object) -> None:
        if change != "MODIFIED" or old is None or _offer(old) != _offer(new):
            self._retry_waiting()

    def _retry_waiting(self) -> None:
        for key in sorted(self._waiting, key=lambda k: _turn(self._waiting[k])):
            self._decider.enqueue(key)

    async def _decide(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or not _wants_node(pod):
            self._waiting.pop(key, None)
            return None
        if key in self._decisions and self._decisions[key][1].node:
            return None
        placement = GATED
        if not pod["spec"].get("schedulingGates"):
            claims = {
                name: claim
                for name in claim_names(pod)
                if (claim := self._claims.get(key[0], name)) is not None
            }
            placement = place(pod, self._nodes.items(), self._ledger.used(), claims)
        uid = pod["metadata"]["uid"]
        self._decisions[key] = (uid, placement)
        if placement.node:
            self._waiting.pop(key, None)
            self._ledger.hold(uid, placement.node, pod_requests(pod))
        elif placement is not GATED:
            self._waiting[key] = pod
        self._binder.enqueue(key)
        return None

    async def _carry_out(self, key: Key) -> float | None:
        uid, placement = self._decisions.get(key, ("", None))
        pod = self._pods.get(*key)
        if placement is None:
            return None
        if pod is None or pod["metadata"]["uid"] != uid:
            self._take_back(key, uid)
            return None
        if placement.node:
            await self._bind(key, pod, placement.node)
            return None
        del self._decisions[key]
        return await self._explain(key, pod, placement)

    async def _bind(self, key: Key, pod: Object, node: str) -> None:
        """Bind; when the answer is lost, `TransportError` brings us back with the decision as it is."""
        uid = pod["metadata"]["uid"]
        try:
            await self._client.bind(key[1], key[0], node)
        except ApiError as error:
            if error.code == 409 and await self._is_bound(key, uid):
                return  # by an earlier try: the watch will show where
            self._take_back(key, uid)
            if error.code not in (404, 409):
                self._decider.queue.add_rate_limited(key)
            return
        text = f"Successfully assigned {key[0]}/{key[1]} to {node}"
        self._events.event(pod, "Normal", "Scheduled", text)
        ignored = unregarded_fields(pod)
        if ignored:
            text = f"{', '.join(ignored)}: {UNREGARDED}"
            self._events.event(pod, "Warning", "FieldNotHonoured", text)

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

    async def _explain(self, key: Key, pod: Object, placement: Placement) -> float | None:
        """Write the PodScheduled condition; unchanged words are not written again."""
        conditions = (pod.get("status") or {}).get("conditions") or ()
        before: Object = next((c for c in conditions if c["type"] == "PodScheduled"), {})
        if before.get("message") == placement.why_not:
            return None
        now = asyncio.get_running_loop().time()
        wait = self._explained.get(key, now - EXPLAIN_SECONDS) + EXPLAIN_SECONDS - now
        if wait > 0:
            self._decider.enqueue_after(key, wait)
            return None
        self._explained[key] = now
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated" if placement is GATED else "Unschedulable",
            "message": placement.why_not,
            "lastProbeTime": None,
            "lastTransitionTime": format_time(time.time()),
        }
        if before.get("status") == "False":
            condition["lastTransitionTime"] = before.get("lastTransitionTime")
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                PODS,
                key[1],
                key[0],
                patch,
                patch_type=STRATEGIC,
                subresource="status",
            )
        except ApiError as error:
            if error.code not in (404, 409, 422):  # gone, or another pod has the name
                raise
            return None
        if placement is not GATED:
            self._events.event(pod, "Warning", "FailedScheduling", placement.why_not)
        return None


def _wants_node(pod: Object) -> bool:
    return (
        not pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and phase(pod) not in FINISHED
        and pod["spec"].get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    )


def unregarded_fields(pod: Object) -> list[str]:
    """Return the fields that placement does not look at; `preferred` rules are hints and may be passed over."""
    spec, required = pod["spec"], "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.get("affinity") or {}
    fields = [
        f"spec.affinity.{name}"
        for name in ("podAffinity", "podAntiAffinity")
        if (affinity.get(name) or {}).get(required)
    ]
    spread = spec.get("topologySpreadConstraints") or ()
    if any(c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for c in spread):
        fields.append("spec.topologySpreadConstraints")
    return fields


def _turn(pod: Object) -> tuple[int, str]:
    return -int(pod["spec"].get("priority") or 0), str(pod["metadata"]["creationTimestamp"])


def _offer(obj: Object) -> tuple[object, ...]:
    """Return what of a node or claim decides over pods: not the heartbeats."""
    status = obj.get("status") or {}
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
