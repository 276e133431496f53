"""The PodGroups of both APIs: mirrors what decides over groups, remembers what was decided, and writes their status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Worker
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.cluster.scheduler.gangs import coscheduling, volcano
from trainshed.cluster.scheduler.gangs.group import Counts, Group, Unit
from trainshed.cluster.scheduler.gangs.placement import GroupPlacement, Queue
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.amounts import Amounts, add
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainshed.kube.meta.podgroups import COSCHEDULING_PODGROUPS, VOLCANO_PODGROUPS, VOLCANO_QUEUES
from trainshed.kube.meta.pods import FINISHED, phase
from trainshed.kube.meta.resources import PRIORITYCLASSES
from trainshed.kube.meta.times import time_or_none

COMING_SECONDS = 2.0
"""Pods of a group come one by one: that some are missing is said once they have had the time to come."""
PROMISE_SECONDS = 30.0
"""What a group was let in for is kept for its pods for so long; whoever makes them may be gone."""
GATHER_SECONDS = 0.2
"""Counts of a group change with each of its pods: one write for those that change together."""

Members = Callable[[Unit], Sequence[Object]]


class _Told(msgspec.Struct):
    """What was last decided about a group, since when (on the loop's clock), and what was said of it."""

    uid: str
    let_in: bool = False
    why: str = ""
    incomplete: bool = False
    since: float = 0.0
    said: str = ""
    late: bool = False


class PodGroups:
    """The groups, for the scheduler.

    `members` returns the pods of a group; `changed` is called for a group that is to be decided anew.
    """

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        recorder: EventRecorder,
        members: Members,
        changed: Callable[[Unit], None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._members = members
        self._changed = changed
        self._mirrors = {
            resource.group: informers.of(resource) for resource in (VOLCANO_PODGROUPS, COSCHEDULING_PODGROUPS)
        }
        self._queues = informers.of(VOLCANO_QUEUES)
        self._classes = informers.of(PRIORITYCLASSES)
        self._told: dict[Unit, _Told] = {}
        self._promised: dict[Unit, tuple[Amounts, float]] = {}
        self._writer: Worker[Unit] = Worker("podgroups", self._write, workers=4)
        for mirror in self._mirrors.values():
            mirror.add_handler(self._group_changed)

    @property
    def policies(self) -> tuple[Informer, ...]:
        """What decides over groups beside themselves and their pods."""
        return self._queues, self._classes

    async def run(self) -> None:
        """Write statuses until cancelled."""
        await self._writer.run()

    def get(self, unit: Unit) -> Group | None:
        """Return the group, None where there is no such PodGroup."""
        obj = self._object(unit)
        return None if obj is None or is_terminating(obj) else self._read(obj)

    def is_let_in(self, unit: Unit) -> bool:
        """Return whether the group may have pods."""
        obj = self._object(unit)
        if obj is None or unit[0] != VOLCANO_PODGROUPS.group:
            return True
        return self._memory(unit, obj).let_in or volcano.is_let_in(obj)

    def queue(self, group: Group) -> Queue:
        """Return the group's queue; one that does not exist limits nothing."""
        found = self._queues.get("", group.queue) if group.queue else None
        return Queue(name=group.queue) if found is None else volcano.read_queue(found)

    def queue_used(self, group: Group) -> Amounts:
        """Return what the pods of the group's queue hold, where the queue limits that."""
        used: Amounts = {}
        limited = group.queue and self.queue(group).capability
        for other in self._mirrors[VOLCANO_PODGROUPS.group].items() if limited else ():
            if self._read(other).queue == group.queue:
                for pod in self._members(_unit(other)):
                    if spec_of(pod).get("nodeName") and phase(pod) not in FINISHED:
                        add(used, pod_requests(pod))
        return used

    def priority(self, group: Group) -> int:
        """Return the group's priority: its own, else the highest of its pods."""
        if group.priority is not None:
            return group.priority
        return max((int(spec_of(pod).get("priority") or 0) for pod in self._members(group.unit)), default=0)

    def counts(self, unit: Unit) -> Counts:
        """Return how the pods of a group are doing; those on their way out do not count."""
        pods = [pod for pod in self._members(unit) if not is_terminating(pod)]
        phases = [phase(pod) for pod in pods]
        return Counts(
            pods=len(pods),
            placed=sum(bool(spec_of(pod).get("nodeName")) for pod in pods),
            running=phases.count("Running"),
            succeeded=phases.count("Succeeded"),
            failed=phases.count("Failed"),
        )

    def promised(self, unit: Unit) -> Amounts:
        """Return what is kept for groups that were let in before this one, and have not got their pods yet."""
        now = asyncio.get_running_loop().time()
        total: Amounts = {}
        for other, (amounts, until) in list(self._promised.items()):
            if until <= now:
                del self._promised[other]
            elif other != unit:
                add(total, amounts)
        return total

    def promised_until(self) -> float | None:
        """Return when the next promise ends, on the loop's clock."""
        return min((until for _, until in self._promised.values()), default=None)

    def decided(self, group: Group, decision: GroupPlacement) -> bool:
        """Take note of a decision and have it written; return whether what was promised to the group is free again."""
        unit, now = group.unit, asyncio.get_running_loop().time()
        obj = self._object(unit)
        if obj is None:
            return False
        freed = False
        memory = self._memory(unit, obj)
        if decision.let_in and decision.incomplete and not self.is_let_in(unit):
            self._promised[unit] = (dict(group.min_resources), now + PROMISE_SECONDS)
        elif not decision.incomplete:
            freed = self._promised.pop(unit, None) is not None
        if bool(decision.why) != bool(memory.why) or decision.incomplete != memory.incomplete:
            memory.since = now
        at_once = decision.let_in and not memory.let_in
        if at_once and group.queue and self._queues.get("", group.queue) is None:
            text = f'there is no queue "{group.queue}": the group is placed as in one without limits'
            self._recorder.event(obj, "Normal", "QueueNotFound", text)
        memory.let_in |= decision.let_in
        memory.why, memory.incomplete = decision.why, decision.incomplete
        self._writer.queue.add_after(unit, 0.0 if at_once else GATHER_SECONDS)
        return freed

    def pods_changed(self, unit: Unit) -> None:
        """Have the counts of a group written, soon."""
        if unit[0]:
            self._writer.queue.add_after(unit, GATHER_SECONDS)

    def _group_changed(self, change: str, old: Object | None, new: Object) -> None:
        unit = _unit(new)
        if change == "DELETED":
            self._told.pop(unit, None)
            self._promised.pop(unit, None)
        if old is None or change == "DELETED" or spec_of(old) != spec_of(new):
            self._changed(unit)

    def _object(self, unit: Unit) -> Object | None:
        mirror = self._mirrors.get(unit[0])
        return None if mirror is None else mirror.get(unit[1], unit[2])

    def _memory(self, unit: Unit, obj: Object) -> _Told:
        memory = self._told.get(unit)
        if memory is None or memory.uid != uid_of(obj):
            memory = self._told[unit] = _Told(uid_of(obj))
        return memory

    def _read(self, obj: Object) -> Group:
        if obj["apiVersion"] == COSCHEDULING_PODGROUPS.api_version:
            return coscheduling.read(obj)
        return volcano.read(obj, {name_of(c): int(c.get("value") or 0) for c in self._classes.items()})

    async def _write(self, unit: Unit) -> float | None:
        """Bring the status of one PodGroup up to date and say what is new; return when to look again."""
        obj = self._object(unit)
        if obj is None or is_terminating(obj):
            return None
        memory, group, now = self._memory(unit, obj), self._read(obj), asyncio.get_running_loop().time()
        coming = memory.since + COMING_SECONDS - now if memory.incomplete else 0.0
        why = memory.why if coming <= 0 else ""
        if unit[0] == VOLCANO_PODGROUPS.group:
            let_in = self.is_let_in(unit)
            status = volcano.status(obj, group, self.counts(unit), let_in=let_in, why=why, now=time.time())
        else:
            status = coscheduling.status(obj, group, self.counts(unit), now=time.time())
        if status != status_of(obj):
            await self._patch(obj, group, status)
        if why and why != memory.said:
            self._recorder.event(obj, "Warning", "Unschedulable", why)
        elif not why and memory.said:
            self._recorder.event(obj, "Normal", "Scheduled", f"{group} has its nodes")
        if coming <= 0:
            memory.said = why
        waits = [coming] if coming > 0 else []
        if (left := self._until_late(obj, status, group, memory)) is not None:
            waits.append(left)
        return min(waits, default=None)

    def _until_late(self, obj: Object, status: Object, group: Group, memory: _Told) -> float | None:
        """Say that a group waits for longer than it is to; return in how many seconds that is to be looked at."""
        started = time_or_none(status.get("scheduleStartTime"))
        if group.timeout is None or started is None or not memory.why or memory.late:
            return None
        left = started + group.timeout - time.time()
        if left > 0:
            return left
        memory.late = True
        text = f"not placed within {group.timeout:.0f} s, and goes on waiting: {memory.why}"
        self._recorder.event(obj, "Warning", "ScheduleTimeout", text)
        return None

    async def _patch(self, obj: Object, group: Group, status: Object) -> None:
        """Write the status. Volcano's PodGroups have no subresource for it, unless another version is installed."""
        gone = {field: None for field in status_of(obj) if field not in status}
        patch = {"metadata": {"uid": uid_of(obj)}, "status": {**gone, **status}}
        resource = group.resource
        places = ["", "status"] if resource == VOLCANO_PODGROUPS else ["status"]
        for subresource in places:
            try:
                written = await self._client.patch(
                    resource, name_of(obj), namespace_of(obj), patch, subresource=subresource
                )
            except ApiError as error:
                if error.code not in (404, 409, 422):  # gone, or another has the name
                    raise
                return
            if status_of(written) == status:
                return


def _unit(obj: Object) -> Unit:
    return str(obj["apiVersion"]).partition("/")[0], namespace_of(obj), name_of(obj)
