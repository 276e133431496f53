"""How the steps of a run stand, read off its children."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, objects, status_of
from trainshed.kube.meta.times import parse_time
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.notebook.stepnames import resource_name
from trainshed.tekton import conditions
from trainshed.tekton.ahead import is_prepared
from trainshed.tekton.resources import LABEL_PIPELINE_TASK

State = Literal["waiting", "pending", "running", "succeeded", "failed", "cancelled", "skipped"]


class StepState(msgspec.Struct, frozen=True):
    """How one step stands. `started` and `ended` are seconds since the epoch."""

    name: str
    state: State = "waiting"
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    previous: tuple[str, ...] = ()
    level: int = 0

    def seconds(self, now: float) -> float | None:
        """Return how long it has taken, None before it starts."""
        return None if self.started is None else (self.ended or now) - self.started


def levels(pipeline: Pipeline) -> dict[str, int]:
    """Return how many steps must end before each, on the longest way."""
    found: dict[str, int] = {}
    for step in pipeline.steps:
        found[step.name] = max((found.get(p, -1) + 1 for p in step.previous), default=0)
    return found


def states(pipeline: Pipeline, run: Object | None, children: Sequence[Object]) -> tuple[StepState, ...]:
    """Return how each step of the pipeline stands, in the pipeline's order."""
    level = levels(pipeline)
    skipped = {
        str(s["name"]): str(s.get("reason", "")) for s in objects(status_of(run or {}), "skippedTasks")
    }
    by_task: dict[str, list[Object]] = defaultdict(list)
    for child in (c for c in children if not is_prepared(c)):
        by_task[labels_of(child).get(LABEL_PIPELINE_TASK, "")].append(child)
    out = []
    for step in pipeline.steps:
        task = resource_name(step.name)
        runs = [*by_task[task], *(r for i in range(_workers(step)) for r in by_task[f"{task}{i + 1}"])]
        one = StepState(step.name, previous=step.previous, level=level[step.name])
        if task in skipped:
            one = msgspec.structs.replace(one, state="skipped", detail=skipped[task])
        elif runs:
            one = _state_of(one, runs)
        out.append(one)
    return tuple(out)


def _workers(step: object) -> int:
    distribution = getattr(step, "distribution", None)
    return int(distribution.workers) if distribution is not None else 0


def _state_of(one: StepState, runs: Sequence[Object]) -> StepState:
    words = [conditions.state(run) for run in runs]
    why = [conditions.reason(run) for run in runs]
    begun = [t for run in runs if (t := status_of(run).get("startTime"))]
    over = [t for run in runs if (t := status_of(run).get("completionTime"))]
    state: State
    if "False" in words:
        state = "cancelled" if any(w.endswith("Cancelled") for w in why) else "failed"
    elif all(word == "True" for word in words):
        state = "succeeded"
    else:
        state = "running" if "Running" in why else "pending"
    message = next((c.get("message", "") for run in runs for c in objects(status_of(run), "conditions")), "")
    retried = max((len(objects(status_of(run), "retriesStatus")) for run in runs), default=0)
    detail = message if state in ("pending", "failed") and message != "Pending" else ""
    if retried and state in ("running", "pending"):
        detail = f"attempt {retried + 1}"
    return msgspec.structs.replace(
        one,
        state=state,
        started=parse_time(min(begun)) if begun else None,
        ended=parse_time(max(over)) if len(over) == len(runs) and over else None,
        detail=detail,
    )
