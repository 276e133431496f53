"""What a decision about a run has put down so far."""

from __future__ import annotations

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.times import format_time
from trainshed.tekton import conditions


class Draft(msgspec.Struct):
    """A status that is being written, and the events of it, at one time."""

    status: Object
    now: float
    events: list[Event] = []

    def begin(self) -> None:
        """Write down when the run started, if nothing says so yet."""
        if not self.status.get("startTime"):
            self.status["startTime"] = format_time(self.now)
            conditions.mark(self.status, "Unknown", "Started", "", self.now)
            self.events.append(Event("Normal", "Started", ""))

    def goes_on(self, reason: str, message: str) -> None:
        """Write down how a run that is not over stands."""
        if conditions.mark(self.status, "Unknown", reason, message, self.now):
            self.events.append(Event("Normal", reason, message))

    def ends(self, value: conditions.State, reason: str, message: str) -> None:
        """Write down how a run ended, and when."""
        conditions.mark(self.status, value, reason, message, self.now)
        self.status["completionTime"] = format_time(self.now)
