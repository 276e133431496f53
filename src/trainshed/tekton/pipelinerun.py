"""What a PipelineRun needs next. Pure.

    resolve      once: the pipeline with parameters filled in goes into the status (`pipelinespec`)
    facts        how each task stands (`facts`)
    stop         cancelled or out of time (`limits`): its children are asked to end, then the run is over
    start        tasks that may start become TaskRuns and CustomRuns (`tasksof`)
    status       counts, skipped tasks, child references, results (`pipelinestatus`)

Children have deterministic names, so whatever is repeated makes nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.kube.meta.objects import (
    Object,
    copy_tree,
    is_terminating,
    name_of,
    objects,
    section,
    spec_of,
    status_of,
    texts,
)
from trainshed.kube.meta.plan import Action, Create, Event, Patch, Plan
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS
from trainshed.kube.meta.times import format_time
from trainshed.tekton import conditions
from trainshed.tekton.conditions import Refused
from trainshed.tekton.durations import go
from trainshed.tekton.facts import Circumstances, Facts
from trainshed.tekton.limits import Limits
from trainshed.tekton.matrix import is_fanned_out
from trainshed.tekton.pipelinespec import resolved
from trainshed.tekton.pipelinestatus import by_task, describe, judged, over
from trainshed.tekton.pipelinetasks import graph, reference_of
from trainshed.tekton.resources import AT_ONCE_ANNOTATION, CUSTOMRUNS, TASKRUNS
from trainshed.tekton.tasksof import Making, children
from trainshed.tekton.whens import WhenError
from trainshed.tekton.workspaces import WorkspaceError, claims

PENDING = "PipelineRunPending"
STOPS = ("Cancelled", "CancelledRunFinally", "StoppedRunFinally")
_CHILD = {"TaskRun": TASKRUNS, "CustomRun": CUSTOMRUNS}
_STOP_CHILD = {"TaskRun": "TaskRunCancelled", "CustomRun": "RunCancelled"}


class Observed(msgspec.Struct, frozen=True):
    """A PipelineRun and what belongs to it. `tasks` and `pipeline` are what it refers to, where they exist."""

    run: Object
    children: Sequence[Object] = ()
    """TaskRuns and CustomRuns that it owns."""
    pipeline: Object | None = None
    tasks: Mapping[str, Object] = {}
    claims: frozenset[str] = frozenset()
    """Names of the claims in its namespace."""
    now: float = 0.0


def decide(observed: Observed) -> Plan:
    """Return what to do about the run now."""
    run, now = observed.run, observed.now
    if is_terminating(run) or conditions.is_done(run):
        return Plan()
    status: Object = copy_tree(status_of(run))
    spec: Object = copy_tree(spec_of(run))
    if spec.get("status") == PENDING and not status.get("startTime"):
        changed = conditions.mark(status, "Unknown", PENDING, f'PipelineRun "{name_of(run)}" is pending', now)
        return Plan(status=status, events=(Event("Normal", PENDING, ""),) if changed else ())
    events: list[Event] = []
    if not status.get("startTime"):
        status["startTime"] = format_time(now)
        conditions.mark(status, "Unknown", "Started", "", now)
        events.append(Event("Normal", "Started", ""))
    try:
        if not status.get("pipelineSpec"):
            status["pipelineSpec"] = resolved(run, spec, observed.pipeline, observed.tasks)
        return _advance(observed, spec, status, events)
    except Refused as error:
        return over(run, status, events, "False", error.reason, str(error), now)


def task_references(run: Object, pipeline: Object | None) -> list[str]:
    """Return the names of the Tasks that the run's tasks refer to."""
    spec = section(status_of(run), "pipelineSpec") or section(spec_of(run), "pipelineSpec")
    spec = spec or spec_of(pipeline or {})
    tasks = [*objects(spec, "tasks"), *objects(spec, "finally")]
    return [name for task in tasks if (name := reference_of(task))]


def _advance(observed: Observed, spec: Object, status: Object, events: list[Event]) -> Plan:
    run, now = observed.run, observed.now
    pipeline: Object = status["pipelineSpec"]
    nodes = graph(pipeline)
    limits = Limits.of(spec, status)
    stop = str(spec.get("status") or "")
    held = Circumstances(
        stop if stop in STOPS else "",
        limits.pipeline_over(now),
        limits.tasks_over(now),
        limits.finally_over(now),
    )
    facts = Facts(nodes, by_task(observed.children, nodes), held)
    try:
        facts.check()
    except WhenError as error:
        raise Refused("PipelineValidationFailed", str(error)) from error
    if status.get("startTime") and facts.ordinary_over and facts.final and not status.get("finallyStartTime"):
        status["finallyStartTime"] = format_time(now)
        limits = Limits.of(spec, status)
    stopping = _asked_to_end(observed, facts, held)
    if stopping:
        return Plan(actions=tuple(stopping), events=tuple(events))
    if held.stop == "Cancelled":
        describe(status, facts)
        text = f'PipelineRun "{name_of(run)}" was cancelled'
        return over(run, status, events, "False", "Cancelled", text, now)
    if held.timed_out:
        describe(status, facts)
        text = f'PipelineRun "{name_of(run)}" failed to finish within "{go(limits.pipeline or 0)}"'
        return over(run, status, events, "False", "PipelineRunTimeout", text, now)
    actions = _creations(observed, spec, pipeline, facts)
    made = [a.object for a in actions if isinstance(a, Create) and a.resource is not PERSISTENTVOLUMECLAIMS]
    describe(status, facts, made)
    return judged(run, status, facts, limits, actions, events, held, now)


def _asked_to_end(observed: Observed, facts: Facts, held: Circumstances) -> list[Action]:
    """Return the patches that ask children to end, of those that were not asked yet."""
    whole = held.stop == "Cancelled" or held.timed_out
    out: list[Action] = []
    for node in facts.nodes.values():
        late = held.finally_timed_out if node.final else held.tasks_timed_out
        gracefully = held.stop == "CancelledRunFinally" and not node.final
        if not (whole or late or gracefully):
            continue
        for child in facts.runs(node.name):
            kind = str(child.get("kind"))
            if conditions.is_done(child) or spec_of(child).get("status") == _STOP_CHILD[kind]:
                continue
            patch: Object = {"status": _STOP_CHILD[kind]}
            if held.timed_out or late:
                patch["statusMessage"] = f"{kind} cancelled as the PipelineRun it belongs to has timed out."
            else:
                patch["statusMessage"] = (
                    f"{kind} cancelled as the PipelineRun it belongs to has been cancelled."
                )
            out.append(Patch(resource=_CHILD[kind], object=child, patch={"spec": patch}))
    return out


def _creations(observed: Observed, spec: Object, pipeline: Object, facts: Facts) -> list[Action]:
    run = observed.run
    actions: list[Action] = [
        Create(resource=PERSISTENTVOLUMECLAIMS, given=claim)
        for claim in claims(run, objects(spec, "workspaces"))
        if name_of(claim) not in observed.claims
    ]
    making = Making(run, spec, pipeline, observed.tasks)
    free = _free(observed)
    for node in facts.ready():
        if free == 0:
            break
        if facts.runs(node.name) and not is_fanned_out(node.task):
            continue
        try:
            wanted = children(making, node, facts.scope(node))
        except WorkspaceError as error:
            raise Refused("InvalidWorkspaceBindings", str(error)) from error
        there = {name_of(child) for child in facts.runs(node.name)}
        new = [child for child in wanted if name_of(child) not in there][:free]
        free = None if free is None else free - len(new)
        actions += [Create(resource=_CHILD[str(child["kind"])], given=child) for child in new]
    return actions


def _free(observed: Observed) -> int | None:
    """Return how many children may start now; None without a limit."""
    text = texts(section(observed.run, "metadata"), "annotations").get(AT_ONCE_ANNOTATION, "")
    if not text.isdigit():
        return None
    return max(int(text) - sum(not conditions.is_done(child) for child in observed.children), 0)
