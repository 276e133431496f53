"""What a PipelineRun says of itself: child references, skipped tasks, counts, results, how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, name_of, objects
from trainshed.kube.meta.plan import Action, Create, Event, Plan
from trainshed.tekton import conditions
from trainshed.tekton.draft import Draft
from trainshed.tekton.durations import go
from trainshed.tekton.facts import TIMEOUTS, Circumstances, Facts, described
from trainshed.tekton.limits import Limits
from trainshed.tekton.pipelinetasks import Node
from trainshed.tekton.resources import LABEL_PIPELINE_TASK
from trainshed.tekton.tasksof import child_reference
from trainshed.tekton.variables import references, replace


def by_task(found: Sequence[Object], nodes: Mapping[str, Node]) -> dict[str, list[Object]]:
    """Return the children of each task, in the order of their names' numbers."""
    out: dict[str, list[Object]] = {}
    for child in found:
        task = labels_of(child).get(LABEL_PIPELINE_TASK, "")
        if task in nodes:
            out.setdefault(task, []).append(child)
    for runs in out.values():
        runs.sort(key=lambda run: (len(name_of(run)), name_of(run)))
    return out


def describe(status: Object, facts: Facts, made: Sequence[Object] = ()) -> None:
    """Write child references and skipped tasks."""
    new = by_task(made, facts.nodes)
    listed, skipped = [], []
    for node in facts.nodes.values():
        scope = facts.scope(node)
        for child in (*facts.runs(node.name), *new.get(node.name, ())):
            listed.append(child_reference(node, child, scope))
        reason = facts.skip(node.name)
        if reason:
            entry: Object = {"name": node.name, "reason": reason}
            when = objects(node.task, "when")
            if when:
                entry["whenExpressions"] = replace(when, scope)
            skipped.append(entry)
    for key, value in (("childReferences", listed), ("skippedTasks", skipped)):
        if value:
            status[key] = value
        else:
            status.pop(key, None)


class Verdict(msgspec.Struct, frozen=True):
    """How a run ended: the status, reason and message of its condition."""

    value: conditions.State
    reason: str
    message: str


def judged(
    run: Object, draft: Draft, facts: Facts, limits: Limits, held: Circumstances, actions: Sequence[Action]
) -> Plan:
    """Return the plan of a run that goes on with these actions, or is over."""
    tally = _tally(facts, actions)
    if tally.incomplete == 0:
        verdict = _verdict(run, facts, limits, held, tally)
        if verdict.value == "True" or tally.failed:
            results = _results(draft.status["pipelineSpec"], facts)
            if results:
                draft.status["results"] = results
        return over(draft, verdict)
    if held.tasks_timed_out:
        reason = "PipelineRunTimeoutRunningFinally"
    elif held.stop == "CancelledRunFinally":
        reason = "CancelledRunningFinally"
    elif held.stop == "StoppedRunFinally":
        reason = "StoppedRunningFinally"
    elif tally.cancelled or (tally.failed and all(facts.is_over(node.name) for node in facts.final)):
        reason = "PipelineRunStopping"
    else:
        reason = "Running"
    message = (
        f"Tasks Completed: {tally.completed} (Failed: {len(tally.failed)}, Cancelled {len(tally.cancelled)}), "
        f"Incomplete: {tally.incomplete}, Skipped: {len(tally.skipped)}"
    )
    draft.goes_on(reason, message)
    return Plan(
        actions=tuple(actions),
        status=draft.status,
        events=tuple(draft.events),
        requeue_after=limits.next(draft.now),
    )


class _Tally(msgspec.Struct, frozen=True):
    """The names of the tasks by what became of them, and how many have not come to an end."""

    skipped: list[str]
    ignored: list[str]
    failed: list[str]
    cancelled: list[str]
    completed: int
    incomplete: int


def _tally(facts: Facts, actions: Sequence[Action]) -> _Tally:
    standings = {node.name: facts.standing(node.name) for node in facts.nodes.values()}
    starting = {labels_of(a.object).get(LABEL_PIPELINE_TASK) for a in actions if isinstance(a, Create)}
    skipped = [name for name in standings if facts.skip(name)]
    ignored = [n for n, s in standings.items() if s == "failed" and facts.nodes[n].goes_on]
    failed = [n for n, s in standings.items() if s == "failed" and n not in ignored]
    cancelled = [n for n, s in standings.items() if s == "cancelled"]
    succeeded = [n for n, s in standings.items() if s == "succeeded" and n not in starting]
    completed = len(succeeded) + len(failed) + len(cancelled) + len(ignored)
    incomplete = len(standings) - completed - len(skipped)
    return _Tally(skipped, ignored, failed, cancelled, completed, incomplete)


def _verdict(run: Object, facts: Facts, limits: Limits, held: Circumstances, tally: _Tally) -> Verdict:
    """Return how a run ended whose tasks are over."""
    counts = f"Failed: {len(tally.failed) + len(tally.ignored)}"
    if tally.ignored:
        counts += f" (Ignored: {len(tally.ignored)})"
    message = (
        f"Tasks Completed: {tally.completed} ({counts}, Cancelled {len(tally.cancelled)}),"
        f" Skipped: {len(tally.skipped)}"
    )
    if held.tasks_timed_out:
        within = f'tasks failed to finish within "{go(limits.tasks or 0)}"'
        return Verdict("False", "PipelineRunTimeout", f'PipelineRun "{name_of(run)}" failed due to {within}')
    if tally.failed or any(facts.skip(name) in TIMEOUTS for name in tally.skipped):
        return Verdict("False", "Failed", message)
    if held.stop in ("CancelledRunFinally", "StoppedRunFinally"):
        return Verdict("False", "Cancelled", f'PipelineRun "{name_of(run)}" was cancelled')
    if tally.cancelled:
        return Verdict("False", "Cancelled", message)
    return Verdict("True", "Completed" if tally.skipped else "Succeeded", message)


def _results(pipeline: Object, facts: Facts) -> list[Object]:
    """Return the pipeline's results, without those of which a part is missing."""
    scope = facts.results()
    out = []
    for declared in objects(pipeline, "results"):
        raw: Any = declared.get("value")
        value = replace(raw, scope)
        if any(name.split(".")[0] in ("tasks", "finally") for name in references(value)):
            continue
        out.append(
            {key: item for key, item in described(str(declared["name"]), value).items() if key != "type"}
        )
    return out


def over(draft: Draft, verdict: Verdict) -> Plan:
    """Return the plan of a run that is over."""
    draft.ends(verdict.value, verdict.reason, verdict.message)
    if verdict.value == "True":
        told = Event("Normal", "Succeeded", verdict.message)
    else:
        told = Event("Warning", "Failed", verdict.message)
    return Plan(status=draft.status, events=(*draft.events, told))
