"""The loop around `placement.decide` and `gangs.placement.place_group`: which pod goes where, and which waits.

    pod, PodGroup ──► reconcile: decide whose turn it is (one at a time, no waiting) ──► `binding` (several at a time)

What is decided at once is a unit: a pod by itself, or a group. A decision is held in the ledger from the moment that it
is made, so the next one sees it although neither the binding nor its echo through the watch has happened. If a binding
fails, the unit is decided anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller, Worker
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.scheduler.activequeue import ActiveQueue
from trainshed.cluster.scheduler.binding import BindingCycle, node_of
from trainshed.cluster.scheduler.feasibility import is_helped_by
from trainshed.cluster.scheduler.gangs import placement as gangs
from trainshed.cluster.scheduler.gangs.group import RESOURCES, Group, Unit, unit_of
from trainshed.cluster.scheduler.gangs.preemption import Clearing, clear
from trainshed.cluster.scheduler.ledger import Ledger
from trainshed.cluster.scheduler.placement import (
    DEFAULT_SCHEDULER,
    SCHEDULERS,
    Observed,
    bound,
    decide,
    gives_way,
    waits,
)
from trainshed.cluster.scheduler.podgroups import PodGroups
from trainshed.cluster.scheduler.preemption import ON_THEIR_WAY, Nomination, ineligible, priority_of
from trainshed.cluster.scheduler.queueinghints import asked, group_policy, offer, regarded
from trainshed.cluster.scheduler.requests import pod_needs
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod, ScheduledPods
from trainshed.cluster.scheduler.snapshot import Snapshot, more
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    labels_of,
    name_of,
    status_of,
    uid_of,
)
from trainshed.kube.meta.plan import Plan
from trainshed.kube.meta.pods import FINISHED, claim_names, phase
from trainshed.kube.meta.resources import (
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODDISRUPTIONBUDGETS,
    PODS,
)
from trainshed.kube.meta.sparse import give_back
from trainshed.kube.meta.times import time_or_none

FOREIGN_SECONDS = 3.0
"""A scheduler of somebody else has this long before a pod that names it is told that there is none."""


_NEXT: Unit = ("", "", "")
"""The one key of the queue: what is decided next is for the turns to say."""


class Scheduler(Controller[Unit]):
    """Binds pods that name one of `SCHEDULERS` or of `names`; higher priorities first, then older units."""

    def __init__(self, client: Client, informers: SharedInformers, *, names: Iterable[str] = ()) -> None:
        super().__init__("scheduler", informers, workers=1)
        self._client = client
        self._names = tuple(dict.fromkeys((*SCHEDULERS, *filter(None, names))))
        self._ledger = Ledger()
        self._scheduled = ScheduledPods()
        self._nominated: dict[str, ScheduledPod] = {}
        """Pods that wait until others are gone, by uid, as if they had their node."""
        self._active: ActiveQueue[Unit] = ActiveQueue()
        self._waiting: set[Unit] = set()
        self._later: Worker[Unit] = Worker("later", self._again)
        self._pods = informers.of(PODS)
        recorder = EventRecorder(client, DEFAULT_SCHEDULER)
        self._binding = BindingCycle(
            client, self._pods, recorder, failed=self._give_back, again=self._decide_again
        )
        self._members = self._pods.index(self._group_of)
        self._groups = PodGroups(client, informers, recorder, self._members_of, self.enqueue)
        self._pods.add_handler(self._pod_changed)
        self._nodes = self.watch(informers.of(NODES), lambda _: list(self._waiting), regards=offer)
        self._claims = self.watch(
            informers.of(PERSISTENTVOLUMECLAIMS), lambda _: list(self._waiting), regards=offer
        )
        self._namespaces = self.watch(
            informers.of(NAMESPACES), lambda _: list(self._waiting), regards=labels_of
        )
        self._budgets = informers.of(PODDISRUPTIONBUDGETS)
        for policy in self._groups.policies:
            self.watch(policy, lambda _: list(self._waiting), regards=group_policy)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._binding.run())
            tasks.create_task(self._later.run())
            tasks.create_task(self._groups.run())

    def enqueue(self, key: Unit) -> None:
        """Have a unit decided when it is its turn."""
        if key not in self._active:
            self._active.put(key, self._turn(key))
        super().enqueue(_NEXT)

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        key, uid, unit = key_of(new), new["metadata"]["uid"], self._unit_of(new)
        node = new["spec"].get("nodeName")
        over = change == "DELETED" or phase(new) in FINISHED
        if node or over:
            self._forget(key, uid)
        if over:
            self._binding.forget_victim(uid)
            self._give_back(uid)
        elif node:
            if old is None or regarded(old) != regarded(new):
                self._hold(new, node)
            if old is not None and labels_of(old) != labels_of(new):
                self._retry_waiting()
        else:
            if nominated := status_of(new).get("nominatedNodeName"):
                self._nominated[uid] = ScheduledPod.of(new, nominated, unit)
            if old is None or asked(old) != asked(new):
                self.enqueue(unit)
        if unit[0]:
            self._groups.pods_changed(unit)
            if over or (old is not None and is_terminating(old) != is_terminating(new)):
                self.enqueue(unit)

    def _hold(self, pod: Object, node: str) -> None:
        """Let the pod count on the node, and those have another turn that waited for such a pod beside them."""
        uid = uid_of(pod)
        self._ledger.hold(uid, node, pod_needs(pod))
        placed = ScheduledPod.of(pod, node, self._unit_of(pod))
        if not self._scheduled.put(placed):
            return
        namespaces = self._labels_of_namespaces()
        for unit in list(self._waiting):
            pods = self._members_of(unit) if unit[0] else filter(None, [self._pods.get(*unit[1:])])
            if any(is_helped_by(each, placed, namespaces) for each in pods):
                self.enqueue(unit)

    def _give_back(self, uid: str) -> None:
        """Let a pod no longer count on its node; others may fit there now."""
        self._scheduled.remove(uid)
        if self._ledger.release(uid):
            self._retry_waiting()

    def _decide_again(self, pod: Object, seconds: float | None) -> None:
        unit = self._unit_of(pod)
        if seconds is None:
            self._later.queue.add_rate_limited(unit)
        else:
            self._later.queue.add_after(unit, seconds)

    def _labels_of_namespaces(self) -> dict[str, dict[str, str]]:
        return {name_of(namespace): labels_of(namespace) for namespace in self._namespaces.items()}

    def _forget(self, key: Key, uid: str) -> None:
        self._waiting.discard(("", *key))
        give_back(self._waiting)
        self._nominated.pop(uid, None)
        self._binding.forget(key, uid)

    def _retry_waiting(self) -> None:
        for unit in list(self._waiting):
            self.enqueue(unit)

    def _turn(self, unit: Unit) -> tuple[object, ...]:
        """Return the place of a unit in line: a group that has begun, then by queue, priority and age."""
        group = self._groups.get(unit)
        if group is None:
            pod = None if unit[0] else self._pods.get(*unit[1:])
            if pod is None:
                return (2, 0, 0, "", unit)
            return (1, 0, -int(pod["spec"].get("priority") or 0), _created(pod), unit)
        begun = 0 < self._groups.counts(unit).placed < group.min_member
        priority = self._groups.priority(group)
        return (0 if begun else 1, -self._groups.queue(group).priority, -priority, group.created, unit)

    async def reconcile(self, key: Unit) -> float | None:
        """Decide about the unit whose turn it is; never waits. `key` is always the same."""
        unit = self._active.pop()
        if unit is None:
            return None
        self.queue.add(key)
        try:
            if unit[0]:
                self._decide_group(unit)
            elif (pod := self._pods.get(*unit[1:])) is not None:
                self._decide_pod(unit, pod)
            else:
                self._waiting.discard(unit)
        except Exception:
            self._later.queue.add_rate_limited(unit)
            raise
        return None

    async def _again(self, unit: Unit) -> None:
        self.enqueue(unit)

    def _decide_pod(self, unit: Unit, pod: Object) -> None:
        key = key_of(pod)
        if not self._wants_node(pod):
            self._waiting.discard(unit)
            if _wants_any_node(pod) and not self._is_ours(pod):
                self._decide_foreign(unit, pod)
            return
        if self._unit_of(pod) != unit or self._binding.is_acting(key):
            return
        gated = bool(pod["spec"].get("schedulingGates"))
        plan = decide(Observed(pod, Snapshot((), {}) if gated else self._snapshot([pod]), time.time()))
        if node_of(plan):
            self._waiting.discard(unit)
        elif not gated:
            self._waiting.add(unit)
        self._decided(pod, plan)

    def _decide_foreign(self, unit: Unit, pod: Object) -> None:
        """Say of a pod for another scheduler that there is none, unless that one is just about to bind it."""
        left = (time_or_none(_created(pod)) or 0.0) + FOREIGN_SECONDS - time.time()
        if left > 0:
            self._later.queue.add_after(unit, left)
            return
        text = (
            f'no scheduler "{pod["spec"]["schedulerName"]}" runs on this cluster: leave spec.schedulerName out, or '
            f"name one of {', '.join(self._names)}"
        )
        self._decided(pod, waits(pod, text, time.time()))

    def _decide_group(self, unit: Unit) -> None:
        group = self._groups.get(unit)
        members = [pod for pod in self._members_of(unit) if self._wants_node(pod)]
        pods = sorted((pod for pod in members if not self._binding.has_node(pod)), key=_pod_turn)
        gated = [pod for pod in pods if pod["spec"].get("schedulingGates")]
        pods = [pod for pod in pods if pod not in gated]
        for pod in gated:
            self._decided(pod, decide(Observed(pod, Snapshot((), {}), time.time())))
        self._waiting.discard(unit)
        if group is None:
            text = f"pod group {unit[1]}/{unit[2]} waits: there is no such PodGroup of {RESOURCES[unit[0]].group}"
            for pod in pods:
                self._decided(pod, waits(pod, text, time.time()), patient=True)
            return
        snapshot = self._snapshot(pods)
        observed = gangs.Observed(
            group=group,
            placed=self._groups.counts(unit).placed + self._on_their_way(members),
            waiting=pods,
            snapshot=snapshot,
            let_in=self._groups.is_let_in(unit),
            promised=self._groups.promised(unit),
            queue=self._groups.queue(group),
            queue_used=self._groups.queue_used(group),
        )
        decision = gangs.place_group(observed)
        if decision.why or None in decision.nodes:
            self._waiting.add(unit)
        freed = self._groups.decided(group, decision)
        clearing = None
        if decision.why and not decision.incomplete:
            clearing = clear(observed, self._groups.priority(group))
        if clearing is not None:
            self._clear_for(group, pods, clearing, decision.why)
        else:
            self._bind_group(group, pods, decision, snapshot)
        if not decision.let_in and (until := self._groups.promised_until()) is not None:
            self._later.queue.add_after(unit, until - asyncio.get_running_loop().time())
        if freed:
            self._retry_waiting()

    def _bind_group(
        self, group: Group, pods: Sequence[Object], decision: gangs.GroupPlacement, snapshot: Snapshot
    ) -> None:
        """Bind the pods that got a node, all of them in the ledger first; the others say why they wait."""
        for pod, node in zip(pods, decision.nodes, strict=True):
            if node is not None:
                self._decided(pod, bound(pod, node))
        going = any(ineligible(pod, snapshot) == ON_THEIR_WAY for pod in pods)
        for pod, node in zip(pods, decision.nodes, strict=True):
            if node is None and decision.why:
                text = f"{group} waits: {decision.why}"
                nominated = status_of(pod).get("nominatedNodeName") if going else None
                plan = waits(pod, text, time.time(), nominated=nominated)
                self._decided(pod, plan, patient=decision.incomplete)
            elif node is None:
                self._decided(pod, decide(Observed(pod, self._snapshot([pod]), time.time())))

    def _clear_for(self, group: Group, pods: Sequence[Object], clearing: Clearing, why: str) -> None:
        """Have others give way to a group; its first pod tells them."""
        victims = clearing.victims
        for pod, node in zip(pods, clearing.nodes, strict=True):
            text = f"{group} waits: {why}"
            if node is None:
                self._decided(pod, waits(pod, text, time.time()))
            else:
                nomination = Nomination(node, victims)
                self._decided(pod, gives_way(pod, nomination, text, str(group), time.time()))
                victims = ()

    def _snapshot(self, pods: Sequence[Object]) -> Snapshot:
        """Return what decides over these pods, which are placed together."""
        names = {(key_of(pod)[0], name) for pod in pods for name in claim_names(pod)}
        claims = {name: claim for name in names if (claim := self._claims.get(*name)) is not None}
        return Snapshot(
            nodes=self._nodes.items(),
            used=self._used_before(pods),
            claims=claims,
            scheduled=self._scheduled,
            namespaces=self._labels_of_namespaces(),
            budgets=self._budgets.items(),
        )

    def _used_before(self, pods: Sequence[Object]) -> Mapping[str, Mapping[str, Decimal]]:
        """Return what is in use on each node, and kept for those as important that others have given way to."""
        used = self._ledger.used()
        if not self._nominated or not pods:
            return used
        own, priority = {uid_of(pod) for pod in pods}, max(map(priority_of, pods))
        kept = [pod for uid, pod in self._nominated.items() if uid not in own and pod.priority >= priority]
        if kept:
            used = dict(used)
            for pod in kept:
                used[pod.node] = more(used.get(pod.node, {}), pod.requests)
        return used

    def _unit_of(self, pod: Object) -> Unit:
        """Return what the pod is decided with; of one for another scheduler only that is said."""
        return unit_of(pod) if self._is_ours(pod) else ("", *key_of(pod))

    def _group_of(self, pod: Object) -> list[str]:
        unit = self._unit_of(pod)
        return ["/".join(unit)] if unit[0] else []

    def _members_of(self, unit: Unit) -> list[Object]:
        return self._members.get("/".join(unit))

    def _is_ours(self, pod: Object) -> bool:
        return pod["spec"].get("schedulerName", DEFAULT_SCHEDULER) in self._names

    def _wants_node(self, pod: Object) -> bool:
        return _wants_any_node(pod) and self._is_ours(pod)

    def _on_their_way(self, members: Iterable[Object]) -> int:
        return sum(self._binding.has_node(pod) for pod in members)

    def _decided(self, pod: Object, plan: Plan, *, patient: bool = False) -> None:
        """Hold a decision in the ledger and have it carried out."""
        if node := node_of(plan):
            self._nominated.pop(uid_of(pod), None)
            self._hold(pod, node)
        else:
            self._note_nomination(pod, plan)
        self._binding.start(pod, plan, patient=patient)

    def _note_nomination(self, pod: Object, plan: Plan) -> None:
        """Keep the node for the pod that others give way to, or let go of it."""
        uid = uid_of(pod)
        if plan.status is not None and "nominatedNodeName" in plan.status:
            nominated = plan.status["nominatedNodeName"]
        else:
            nominated = status_of(pod).get("nominatedNodeName")
        if nominated:
            self._nominated[uid] = ScheduledPod.of(pod, nominated, self._unit_of(pod))
        else:
            self._nominated.pop(uid, None)


def _wants_any_node(pod: Object) -> bool:
    return (
        not pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and phase(pod) not in FINISHED
    )


def _created(pod: Object) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _pod_turn(pod: Object) -> tuple[int, str, str]:
    return -int(pod["spec"].get("priority") or 0), _created(pod), str(pod["metadata"]["name"])
