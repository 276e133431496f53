"""The status that a plan writes: a draft that starts as the stored one and takes each policy's contribution.

A draft also gathers what to say and count once the status is written. Fields that we do not know survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Tally, count_in
from trainshed.jobs.engine.conditions import find, is_true, set_condition
from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.plan import Counter, Plan
from trainshed.kube.meta.objects import Object, objects, section
from trainshed.kube.meta.plan import Action, Event, EventType
from trainshed.kube.meta.times import format_time, time_or_none


class Draft(msgspec.Struct):
    """The status to be, owned by one run of `decide`. `now` is in seconds since the epoch."""

    job: Job
    now: float
    conditions: list[Object]
    replica_statuses: dict[str, Object]
    start_time: str | None
    completion_time: str | None
    events: list[Event] = []
    counters: list[Counter] = []

    @classmethod
    def of(cls, job: Job, now: float) -> Draft:
        """Return a draft equal to the stored status."""
        stored = job.status
        return cls(
            job=job,
            now=now,
            conditions=objects(stored, "conditions"),
            replica_statuses={
                k: dict(v) for k, v in section(stored, "replicaStatuses").items() if isinstance(v, dict)
            },
            start_time=stored.get("startTime"),
            completion_time=stored.get("completionTime"),
        )

    def is_true(self, type_: str) -> bool:
        """Return whether the condition of this type holds."""
        return is_true(self.conditions, type_)

    def set(
        self, type_: str, message: str, *, status: str = "True", outcome: str | None = None, reason: str = ""
    ) -> bool:
        """Set a condition, by default with the kind and `outcome` (default: the type) as its reason.

        Say whether that changed it.
        """
        before = self.conditions
        reason = reason or c.reason(self.job.kind.name, outcome or type_)
        self.conditions = set_condition(before, type_, status, reason, message, format_time(self.now))
        return self.conditions is not before

    def say(self, type_: EventType, outcome: str, message: str) -> None:
        """Add an event whose reason is the kind and `outcome`."""
        self.events.append(Event(type_, c.reason(self.job.kind.name, outcome), message))

    def mark_created(self) -> None:
        """Say that the job was accepted: the first thing that is ever written."""
        if find(self.conditions, c.CREATED) is None:
            self.set(c.CREATED, f"{self.job.kind.name} {self.job.name} is created.")
            self.counters.append("created")

    def start(self) -> None:
        """Set startTime to now."""
        self.start_time = format_time(self.now)

    def succeed(self, message: str) -> None:
        """End the job well."""
        self._finish(c.SUCCEEDED, message, "Normal", "successful")

    def fail(self, message: str, type_: EventType = "Normal", *, reason: str = "") -> None:
        """End the job badly; `reason` is that of the condition where it is not the usual one."""
        self._finish(c.FAILED, message, type_, "failed", reason)

    def _finish(
        self, outcome: str, message: str, type_: EventType, counter: Counter, reason: str = ""
    ) -> None:
        self.set(outcome, message, reason=reason)
        self.completion_time = self.completion_time or format_time(self.now)
        self.say(type_, outcome, message)
        self.counters.append(counter)

    def count(self, tallies: Mapping[str, Tally], selector: Callable[[str], str] | None = None) -> None:
        """Write the counts of every replica type, and the `selector` that autoscalers use where there is one."""
        self.replica_statuses = {type_: _counts(tally) for type_, tally in tallies.items()}
        if selector is not None:
            for type_, counts in self.replica_statuses.items():
                counts["selector"] = selector(type_)

    def fold_active_into_succeeded(self) -> None:
        """Count what still ran when the job succeeded as succeeded: nobody waits for it any more."""
        for counts in self.replica_statuses.values():
            active = count_in(counts, "active")
            counts.pop("active", None)
            if active:
                counts["succeeded"] = count_in(counts, "succeeded") + active

    def clear_active(self) -> None:
        """Count nothing as running."""
        for counts in self.replica_statuses.values():
            counts.pop("active", None)

    def started_at(self) -> float | None:
        """Return startTime in seconds since the epoch."""
        return time_or_none(self.start_time)

    def finished_at(self) -> float | None:
        """Return completionTime in seconds; for a job that another operator left without, when it ended."""
        for type_ in (c.SUCCEEDED, c.FAILED):
            ended = find(self.conditions, type_) or {}
            if self.completion_time is None and ended.get("status") == "True":
                return time_or_none(ended.get("lastTransitionTime"))
        return time_or_none(self.completion_time)

    def to_object(self) -> Object:
        """Return the status object; parts without content are left out."""
        parts = {
            "conditions": self.conditions,
            "replicaStatuses": self.replica_statuses,
            "startTime": self.start_time,
            "completionTime": self.completion_time,
        }
        unknown = {k: v for k, v in self.job.status.items() if k not in parts}
        return {**unknown, **{k: v for k, v in parts.items() if v}}

    def changed(self) -> bool:
        """Return whether the status differs from the stored one."""
        return self.to_object() != {k: v for k, v in self.job.status.items() if v not in (None, [], {})}

    def plan(self, actions: Iterable[Action] = (), requeue_after: float | None = None) -> Plan:
        """Return the plan with this status, written only if it differs from the stored one."""
        return Plan(
            actions=tuple(actions),
            status=self.to_object() if self.changed() else None,
            events=tuple(self.events),
            counters=tuple(self.counters),
            requeue_after=requeue_after,
        )


def _counts(tally: Tally) -> Object:
    """Return the counts as the wire has them: zeros are left out."""
    return {name: n for name, n in msgspec.to_builtins(tally).items() if n}
