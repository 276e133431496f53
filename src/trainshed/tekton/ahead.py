"""Tasks prepared ahead: their pods start before their turn, and then wait for it. Pure.

What is prepared is a TaskRun with `spec.status: TaskRunPending`, whose pod has no `READY_ANNOTATION` yet. Its turn
takes the former away and gives the pod the latter. Until then it counts as one of the run's tasks at once and as
nothing else: it is no child reference, has no start time, and goes without a trace when it is not wanted any more.

Only a task is prepared whose program waits for its turn by itself, which asks for no resources, and of which everything
is known before those in front of it have ended. No prepared pod keeps a step from its turn: a task that may start takes
the place of one that may not, and where a step does not get to run all prepared ones of its run go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    labels_of,
    objects,
    section,
    spec_of,
    status_of,
    texts,
)
from trainshed.kube.meta.times import parse_time
from trainshed.tekton import conditions
from trainshed.tekton.facts import Facts
from trainshed.tekton.matrix import is_fanned_out
from trainshed.tekton.pipelinetasks import Node
from trainshed.tekton.resources import LABEL_PIPELINE_TASK, WAITS_ANNOTATION

PENDING = "TaskRunPending"
PATIENCE_SECONDS = 5.0
"""How long a task whose turn it is may not run until those that are only prepared give way."""


def is_prepared(run: Object) -> bool:
    """Return whether the TaskRun waits for its turn."""
    pending = spec_of(run).get("status") == PENDING and not status_of(run).get("startTime")
    return pending and texts(section(run, "metadata"), "annotations").get(WAITS_ANNOTATION) == "true"


def may_be_prepared(node: Node, run: Object) -> bool:
    """Return whether the run of a task, as it would be made now, may have its pod before its turn."""
    if (
        node.is_custom
        or node.is_pipeline
        or node.uses
        or objects(node.task, "when")
        or is_fanned_out(node.task)
    ):
        return False
    spec = spec_of(run)
    task = section(spec, "taskSpec")
    steps = objects(task, "steps")
    if len(steps) != 1 or objects(task, "sidecars") or steps[0].get("timeout"):
        return False
    asks = (steps[0], section(task, "stepTemplate"), spec, *objects(spec, "stepSpecs"))
    if any(section(one, "computeResources") for one in asks):
        return False
    return texts(section(run, "metadata"), "annotations").get(WAITS_ANNOTATION) == "true"


class Places(msgspec.Struct, frozen=True):
    """The tasks that run at once. `limit` is how many may; `lacking` of those that may start have no place."""

    limit: int
    on: Sequence[Object]
    """Children whose turn has come, and which are not over."""
    prepared: Mapping[str, Object]
    """What waits for its turn, by task, without those whose turn comes now."""
    starting: int
    lacking: int

    @property
    def free(self) -> int:
        """How many more there may be. What is being deleted has its place until it is gone."""
        return self.limit - len(self.on) - self.starting - len(self.prepared)


class Ahead(msgspec.Struct, frozen=True):
    """What to prepare, in this order, as far as it may be and there are places, and what goes."""

    make: tuple[Node, ...] = ()
    drop: tuple[Object, ...] = ()
    look_again: float | None = None
    """Seconds until those that are prepared give way, unless the steps that they wait for run by then."""


def plan(facts: Facts, places: Places, now: float) -> Ahead:
    """Return what to prepare and what to let go."""
    distances = _distances(facts)
    wanted = [node.name for node in facts.ordinary if _is_to_come(facts, node)]
    there = {name: run for name, run in places.prepared.items() if not is_terminating(run)}
    kept = sorted((name for name in there if name in wanted), key=lambda name: distances[name])
    drop = [run for name, run in there.items() if name not in wanted]
    idle = [run for run in places.on if conditions.reason(run) != "Running"]
    patience = min((_started(run, now) + PATIENCE_SECONDS - now for run in idle), default=0.0)
    if idle and patience <= 0:
        return Ahead(drop=tuple(there.values()))
    going = len(places.prepared) - len(kept)
    for _ in range(min(places.lacking - places.free - going, len(kept))):
        drop.append(there[kept.pop()])
    if idle or places.starting or places.lacking:
        return Ahead(drop=tuple(drop), look_again=patience if idle and kept else None)
    new = sorted((name for name in wanted if name not in places.prepared), key=lambda name: distances[name])
    return Ahead(tuple(facts.nodes[name] for name in new), tuple(drop))


def by_task(runs: Sequence[Object]) -> dict[str, Object]:
    """Return prepared runs by their task."""
    return {labels_of(run).get(LABEL_PIPELINE_TASK, ""): run for run in runs}


def _is_to_come(facts: Facts, node: Node) -> bool:
    """Return whether a task waits for others, and may run once they are over."""
    waits = not all(facts.is_over(parent) for parent in node.after)
    return waits and not facts.runs(node.name) and not facts.skip(node.name)


def _distances(facts: Facts) -> dict[str, int]:
    """Return for each task how many must end before it, one after another."""
    found: dict[str, int] = {}

    def distance(name: str) -> int:
        if name not in found:
            ahead = [distance(parent) for parent in facts.nodes[name].after]
            found[name] = 0 if facts.is_over(name) else 1 + max(ahead, default=0)
        return found[name]

    for node in facts.ordinary:
        distance(node.name)
    return found


def _started(run: Object, now: float) -> float:
    began = status_of(run).get("startTime")
    return parse_time(began) if began else now
