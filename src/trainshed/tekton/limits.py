"""The three timeouts of a PipelineRun: of the whole, of its tasks, of `finally`."""

from __future__ import annotations

import msgspec

from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.times import parse_time
from trainshed.tekton.durations import DEFAULT_SECONDS, seconds


class Limits(msgspec.Struct, frozen=True):
    """When what must be over, in seconds since the epoch; None without a limit."""

    pipeline: float | None
    """Seconds that the whole may take."""
    tasks: float | None
    ends: tuple[float | None, float | None, float | None]

    @classmethod
    def of(cls, spec: Object, status: Object) -> Limits:
        """Return the limits of a run that has started."""
        given = section(spec, "timeouts")
        started = parse_time(status["startTime"])
        pipeline = seconds(given.get("pipeline"), DEFAULT_SECONDS)
        final = seconds(given.get("finally"), None)
        tasks = seconds(given.get("tasks"), None)
        if tasks is None and final is not None and pipeline is not None:
            tasks = pipeline - final
        if final is None and tasks is not None and pipeline is not None and given.get("finally") is None:
            final = pipeline - tasks
        began = status.get("finallyStartTime")
        return cls(
            pipeline,
            tasks,
            (
                None if pipeline is None else started + pipeline,
                None if tasks is None else started + tasks,
                None if final is None or not began else parse_time(began) + final,
            ),
        )

    def pipeline_over(self, now: float) -> bool:
        """Return whether the whole run must be over."""
        return self.ends[0] is not None and now >= self.ends[0]

    def tasks_over(self, now: float) -> bool:
        """Return whether its tasks but those of `finally` must be over."""
        return self.ends[1] is not None and now >= self.ends[1]

    def finally_over(self, now: float) -> bool:
        """Return whether those of `finally` must be over."""
        return self.ends[2] is not None and now >= self.ends[2]

    def next(self, now: float) -> float | None:
        """Return the seconds until the next of them."""
        left = [end - now for end in self.ends if end is not None and end > now]
        return min(left) if left else None
