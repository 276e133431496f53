"""What a PipelineRun needs next. Pure.

    resolve      once: the pipeline with parameters filled in goes into the status (`pipelinespec`)
    facts        how each task stands (`facts`)
    stop         cancelled or out of time (`limits`): its children are asked to end, then the run is over
    start        tasks that may start become TaskRuns, CustomRuns and PipelineRuns (`tasksof`)
    ahead        tasks that come next are prepared (`ahead`)
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
from trainshed.kube.meta.plan import Action, Create, Delete, Event, Patch, Plan
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS
from trainshed.kube.meta.times import format_time
from trainshed.tekton import ahead, conditions
from trainshed.tekton.conditions import Refused
from trainshed.tekton.draft import Draft
from trainshed.tekton.durations import go
from trainshed.tekton.facts import Circumstances, Facts
from trainshed.tekton.limits import Limits
from trainshed.tekton.matrix import is_fanned_out
from trainshed.tekton.pipelinespec import resolved
from trainshed.tekton.pipelinestatus import Verdict, by_task, describe, judged, over
from trainshed.tekton.pipelinetasks import Node, graph, reference_of
from trainshed.tekton.resources import AT_ONCE_ANNOTATION, CUSTOMRUNS, PIPELINERUNS, TASKRUNS
from trainshed.tekton.tasksof import Making, children
from trainshed.tekton.whens import WhenError
from trainshed.tekton.workspaces import WorkspaceError, claims

PENDING = "PipelineRunPending"
STOPS = ("Cancelled", "CancelledRunFinally", "StoppedRunFinally")
_CHILD = {"TaskRun": TASKRUNS, "CustomRun": CUSTOMRUNS, "PipelineRun": PIPELINERUNS}
_STOP_CHILD = {"TaskRun": "TaskRunCancelled", "CustomRun": "RunCancelled", "PipelineRun": "Cancelled"}


class Observed(msgspec.Struct, frozen=True):
    """A PipelineRun and what belongs to it. `tasks` and `pipeline` are what it refers to, where they exist."""

    run: Object
    children: Sequence[Object] = ()
    """TaskRuns, CustomRuns and PipelineRuns that it owns."""
    pipeline: Object | None = None
    tasks: Mapping[str, Object] = {}
    claims: frozenset[str] = frozenset()
    """Names of the claims in its namespace."""
    now: float = 0.0


def decide(observed: Observed) -> Plan:
    """Return what to do about the run now."""
    run, now = observed.run, observed.now
    if is_terminating(run):
        return Plan()
    if conditions.is_done(run):
        return Plan(actions=tuple(_dropped([c for c in observed.children if ahead.is_prepared(c)])))
    status: Object = copy_tree(status_of(run))
    spec: Object = copy_tree(spec_of(run))
    if spec.get("status") == PENDING and not status.get("startTime"):
        changed = conditions.mark(status, "Unknown", PENDING, f'PipelineRun "{name_of(run)}" is pending', now)
        return Plan(status=status, events=(Event("Normal", PENDING, ""),) if changed else ())
    draft = Draft(status, now)
    draft.begin()
    try:
        if not status.get("pipelineSpec"):
            status["pipelineSpec"] = resolved(run, spec, observed.pipeline, observed.tasks)
        return _advance(observed, spec, draft)
    except Refused as error:
        return over(draft, Verdict("False", error.reason, str(error)))


def task_references(run: Object, pipeline: Object | None) -> list[str]:
    """Return the names of the Tasks that the run's tasks refer to."""
    spec = section(status_of(run), "pipelineSpec") or section(spec_of(run), "pipelineSpec")
    spec = spec or spec_of(pipeline or {})
    tasks = [*objects(spec, "tasks"), *objects(spec, "finally")]
    return [name for task in tasks if (name := reference_of(task))]


def _advance(observed: Observed, spec: Object, draft: Draft) -> Plan:
    run, now, status = observed.run, observed.now, draft.status
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
    prepared = [child for child in observed.children if ahead.is_prepared(child)]
    begun = [child for child in observed.children if not ahead.is_prepared(child)]
    facts = Facts(nodes, by_task(begun, nodes), held)
    try:
        facts.check()
    except WhenError as error:
        raise Refused("PipelineValidationFailed", str(error)) from error
    if status.get("startTime") and facts.ordinary_over and facts.final and not status.get("finallyStartTime"):
        status["finallyStartTime"] = format_time(now)
        limits = Limits.of(spec, status)
    stopping = _asked_to_end(observed, facts, held)
    if stopping:
        return Plan(actions=tuple(stopping), events=tuple(draft.events))
    if held.stop == "Cancelled":
        describe(status, facts)
        text = f'PipelineRun "{name_of(run)}" was cancelled'
        return over(draft, Verdict("False", "Cancelled", text))
    if held.timed_out:
        describe(status, facts)
        text = f'PipelineRun "{name_of(run)}" failed to finish within "{go(limits.pipeline or 0)}"'
        return over(draft, Verdict("False", "PipelineRunTimeout", text))
    start = _started(observed, spec, pipeline, facts, begun, prepared)
    describe(status, facts, start.children)
    plan = judged(run, draft, facts, limits, held, start.actions)
    if conditions.is_done({"status": status}) or start.look_again is None:
        return plan
    after = [t for t in (plan.requeue_after, start.look_again) if t is not None]
    return msgspec.structs.replace(plan, requeue_after=min(after))


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
            if kind == "PipelineRun":
                pass  # it has no field for why
            elif held.timed_out or late:
                patch["statusMessage"] = f"{kind} cancelled as the PipelineRun it belongs to has timed out."
            else:
                patch["statusMessage"] = (
                    f"{kind} cancelled as the PipelineRun it belongs to has been cancelled."
                )
            out.append(Patch(resource=_CHILD[kind], object=child, patch={"spec": patch}))
    return out


class _Start(msgspec.Struct, frozen=True):
    """What starts now. `children` are the runs whose turn it is."""

    actions: tuple[Action, ...]
    children: tuple[Object, ...]
    look_again: float | None


def _started(
    observed: Observed,
    spec: Object,
    pipeline: Object,
    facts: Facts,
    begun: Sequence[Object],
    prepared: Sequence[Object],
) -> _Start:
    """Return the actions that start tasks, and prepare those that come next."""
    run = observed.run
    making = Making(run, spec, pipeline, observed.tasks)
    on = [child for child in begun if not conditions.is_done(child)]
    limit = _limit(run)
    free = None if limit is None else max(limit - len(on) - len(prepared), 0)
    waiting = ahead.by_task(prepared)
    actions: list[Action] = [
        Create(resource=PERSISTENTVOLUMECLAIMS, given=claim)
        for claim in claims(run, objects(spec, "workspaces"))
        if name_of(claim) not in observed.claims
    ]
    made: list[Object] = []
    turns: list[Action] = []
    lacking = 0
    for node in facts.ready():
        if free == 0 and not waiting:
            break
        if facts.runs(node.name) and not is_fanned_out(node.task):
            continue
        own = waiting.get(node.name)
        if own is not None and is_terminating(own):
            continue  # it is made anew once it is gone
        if own is not None:
            waiting.pop(node.name)
            turns.append(Patch(resource=TASKRUNS, object=own, patch={"spec": {"status": None}}))
            made.append({key: value for key, value in own.items() if key != "status"})
            continue
        if free == 0:
            lacking += 1
            continue
        wanted = _children(making, node, facts)
        there = {name_of(child) for child in facts.runs(node.name)}
        new = [child for child in wanted if name_of(child) not in there]
        lacking += 0 if free is None else max(len(new) - free, 0)
        new = new[:free]
        free = None if free is None else free - len(new)
        made += new
        actions += [Create(resource=_CHILD[str(child["kind"])], given=child) for child in new]
    look_again = None
    if limit is not None:
        places = ahead.Places(limit, on, waiting, starting=len(made), lacking=lacking)
        planned = ahead.plan(facts, places, observed.now)
        actions += _prepared(making, facts, planned.make, places.free)
        turns += _dropped(planned.drop)
        look_again = planned.look_again
    return _Start((*actions, *turns), tuple(made), look_again)


def _children(making: Making, node: Node, facts: Facts) -> list[Object]:
    try:
        return children(making, node, facts.scope(node))
    except WorkspaceError as error:
        raise Refused("InvalidWorkspaceBindings", str(error)) from error


def _prepared(making: Making, facts: Facts, nodes: Sequence[Node], free: int) -> list[Action]:
    """Return the creations of TaskRuns that wait for their turn."""
    out: list[Action] = []
    for node in nodes:
        if len(out) >= free:
            break
        if node.is_custom or node.is_pipeline or is_fanned_out(node.task):
            continue
        [child] = _children(making, node, facts)
        if ahead.may_be_prepared(node, child):
            child["spec"]["status"] = ahead.PENDING
            out.append(Create(resource=TASKRUNS, given=child))
    return out


def _dropped(prepared: Sequence[Object]) -> list[Action]:
    """Return the deletions of TaskRuns that wait in vain; each keeps its place until its pod is gone."""
    return [Delete.of(TASKRUNS, run, propagation="Foreground") for run in prepared if not is_terminating(run)]


def _limit(run: Object) -> int | None:
    """Return how many tasks may run at the same time; None without a limit."""
    text = texts(section(run, "metadata"), "annotations").get(AT_ONCE_ANNOTATION, "")
    return int(text) if text.isdigit() else None
