"""What a PipelineRun needs next. Pure.

    resolve      once: the pipeline with parameters filled in goes into the status
    facts        how each task stands
    stop         cancelled or out of time: its children are asked to end, then the run is over
    start        tasks that may start become TaskRuns and CustomRuns
    status       counts, skipped tasks, child references, results

Children have deterministic names, so whatever is repeated makes nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import (
    Object,
    copy_tree,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    objects,
    section,
    spec_of,
    status_of,
    texts,
    uid_of,
)
from trainshed.kube.meta.plan import Action, Create, Event, Patch, Plan
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS
from trainshed.kube.meta.times import format_time, parse_time
from trainshed.tekton import conditions
from trainshed.tekton.conditions import Refused
from trainshed.tekton.durations import DEFAULT_SECONDS, go, seconds
from trainshed.tekton.facts import TIMEOUTS, Circumstances, Facts, described
from trainshed.tekton.params import Given, ParamError, declared_in, resolve, values_of
from trainshed.tekton.pipelinetasks import GraphError, Node, graph, reference_of, uses_resolver
from trainshed.tekton.resources import AT_ONCE_ANNOTATION, CUSTOMRUNS, LABEL_PIPELINE_TASK, TASKRUNS
from trainshed.tekton.tasksof import Making, child_reference, children, pipeline_name
from trainshed.tekton.variables import Value, references, replace, unknown_indexes
from trainshed.tekton.versions import is_custom
from trainshed.tekton.whens import WhenError
from trainshed.tekton.workspaces import WorkspaceError, claims, require

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
            status["pipelineSpec"] = _resolved(observed, spec)
        return _advance(observed, spec, status, events)
    except Refused as error:
        return _over(run, status, events, "False", error.reason, str(error), now)


def task_references(run: Object, pipeline: Object | None) -> list[str]:
    """Return the names of the Tasks that the run's tasks refer to."""
    spec = section(status_of(run), "pipelineSpec") or section(spec_of(run), "pipelineSpec")
    spec = spec or spec_of(pipeline or {})
    tasks = [*objects(spec, "tasks"), *objects(spec, "finally")]
    return [name for task in tasks if (name := reference_of(task))]


def _resolved(observed: Observed, spec: Object) -> Object:
    """Return the pipeline of a run with parameters and names filled in. Raises Refused."""
    run = observed.run
    where = f"{namespace_of(run)}/{name_of(run)}"
    pipeline = _pipeline(observed, spec, where)
    try:
        given = resolve(declared_in(pipeline), values_of(objects(spec, "params")))
    except ParamError as error:
        raise Refused(error.reason, f"PipelineRun {where} parameters are invalid: {error}") from error
    try:
        nodes = graph(pipeline)
    except GraphError as error:
        raise Refused(error.reason, f"PipelineRun {where}'s pipeline is invalid: {error}") from error
    bindings = objects(spec, "workspaces")
    try:
        require(objects(pipeline, "workspaces"), bindings, "pipeline", "pipelinerun")
    except WorkspaceError as error:
        text = (
            f"PipelineRun {where} doesn't bind Pipeline {pipeline_name(run)}'s Workspaces correctly: {error}"
        )
        raise Refused("InvalidWorkspaceBindings", text) from error
    _check_tasks(observed, nodes, where)
    scope = {**_context(run), **given.scope(), **_bound(pipeline, bindings)}
    if wrong := unknown_indexes({k: v for k, v in pipeline.items() if k != "params"}, scope):
        text = f"PipelineRun {where}: these references are out of an array's bounds: {', '.join(wrong)}"
        raise Refused("ParamArrayIndexingInvalid", text)
    return _filled(pipeline, scope, given)


def _pipeline(observed: Observed, spec: Object, where: str) -> Object:
    inline = spec.get("pipelineSpec")
    if inline:
        return dict(inline)
    reference = section(spec, "pipelineRef")
    resolver = uses_resolver({"pipelineRef": reference}, "pipelineRef")
    if resolver:
        raise Refused(
            "CouldntGetPipeline", f"PipelineRun {where}: the resolver {resolver} is not served here"
        )
    if observed.pipeline is None:
        name = reference.get("name", "")
        text = f'Error retrieving pipeline for pipelinerun {where}: pipelines.tekton.dev "{name}" not found'
        raise Refused("CouldntGetPipeline", text)
    found: Object = copy_tree(spec_of(observed.pipeline))
    return found


def _check_tasks(observed: Observed, nodes: Mapping[str, Node], where: str) -> None:
    for node in nodes.values():
        resolver = uses_resolver(node.task)
        if resolver:
            raise Refused(
                "CouldntGetTask",
                f"PipelineRun {where} can't be Run: the resolver {resolver} of task {node.name} is not served here",
            )
        name = reference_of(node.task)
        if name and not node.is_custom and name not in observed.tasks:
            raise Refused(
                "CouldntGetTask",
                f"Pipeline {where} can't be Run; it contains Tasks that don't exist: Couldn't retrieve Task "
                f'"{name}": tasks.tekton.dev "{name}" not found',
            )
        if node.task.get("pipelineRef") or node.task.get("pipelineSpec"):
            raise Refused(
                "PipelineValidationFailed", f"task {node.name}: pipelines in pipelines are not served here"
            )


def _context(run: Object) -> dict[str, Value]:
    return {
        "context.pipelineRun.name": name_of(run),
        "context.pipelineRun.namespace": namespace_of(run),
        "context.pipelineRun.uid": uid_of(run),
        "context.pipeline.name": pipeline_name(run),
    }


def _bound(pipeline: Object, bindings: Sequence[Object]) -> dict[str, Value]:
    names = {str(b.get("name")) for b in bindings}
    return {
        f"workspaces.{w['name']}.bound": str(w["name"] in names).lower()
        for w in objects(pipeline, "workspaces")
    }


def _filled(pipeline: Object, scope: Mapping[str, Value], given: Given) -> Object:
    """Return the pipeline with references replaced; a task's own parameters hide the pipeline's of the same name."""
    out = {
        key: replace(value, scope)
        for key, value in pipeline.items()
        if key not in ("tasks", "finally", "params")
    }
    if "params" in pipeline:
        out["params"] = pipeline["params"]
    for field in ("tasks", "finally"):
        if field in pipeline:
            out[field] = [_filled_task(task, scope, given) for task in objects(pipeline, field)]
    return out


def _filled_task(task: Object, scope: Mapping[str, Value], given: Given) -> Object:
    retries = {"context.pipelineTask.retries": str(task.get("retries") or 0)}
    outer = {**scope, **retries}
    out = {key: replace(value, outer) for key, value in task.items() if key != "taskSpec"}
    inline = task.get("taskSpec")
    if not inline:
        return out
    if is_custom(inline):
        out["taskSpec"] = inline  # whose parameters are its controller's business
        return out
    own = {str(p.get("name")) for p in (*objects(inline, "params"), *objects(task, "params"))}
    own |= {str(p.get("name")) for p in objects(section(task, "matrix"), "params")}
    for entry in objects(section(task, "matrix"), "include"):
        own |= {str(p.get("name")) for p in objects(entry, "params")}
    inner = {
        key: value
        for key, value in outer.items()
        if not key.startswith("workspaces.") and not (key.startswith("params.") and key[7:] in own)
    }
    kept = {key: inline[key] for key in ("metadata", "description", "params", "results") if key in inline}
    defaults = [
        {**p, "default": replace(p["default"], inner)} if "default" in p else p
        for p in objects(inline, "params")
    ]
    if "params" in kept:
        kept["params"] = defaults
    rest = {key: value for key, value in inline.items() if key not in kept}
    out["taskSpec"] = {**kept, **replace(rest, inner)}
    if "results" in kept:
        out["taskSpec"]["results"] = replace(kept["results"], inner)
    return out


def _advance(observed: Observed, spec: Object, status: Object, events: list[Event]) -> Plan:
    run, now = observed.run, observed.now
    pipeline: Object = status["pipelineSpec"]
    nodes = graph(pipeline)
    limits = _Limits.of(spec, status, now)
    stop = str(spec.get("status") or "")
    held = Circumstances(
        stop if stop in STOPS else "",
        limits.pipeline_over(now),
        limits.tasks_over(now),
        limits.finally_over(now),
    )
    facts = Facts(nodes, _by_task(observed.children, nodes), held)
    try:
        facts.check()
    except WhenError as error:
        raise Refused("PipelineValidationFailed", str(error)) from error
    if status.get("startTime") and facts.ordinary_over and facts.final and not status.get("finallyStartTime"):
        status["finallyStartTime"] = format_time(now)
        limits = _Limits.of(spec, status, now)
    stopping = _asked_to_end(observed, facts, held)
    if stopping:
        return Plan(actions=tuple(stopping), events=tuple(events))
    if held.stop == "Cancelled":
        _describe(observed, status, facts)
        text = f'PipelineRun "{name_of(run)}" was cancelled'
        return _over(run, status, events, "False", "Cancelled", text, now)
    if held.timed_out:
        _describe(observed, status, facts)
        text = f'PipelineRun "{name_of(run)}" failed to finish within "{go(limits.pipeline or 0)}"'
        return _over(run, status, events, "False", "PipelineRunTimeout", text, now)
    actions = _creations(observed, spec, pipeline, facts)
    made = [a.object for a in actions if isinstance(a, Create) and a.resource is not PERSISTENTVOLUMECLAIMS]
    _describe(observed, status, facts, made)
    return _judged(observed, status, facts, limits, actions, events, held)


class _Limits(msgspec.Struct, frozen=True):
    """When what must be over, in seconds since the epoch; None without a limit."""

    pipeline: float | None
    """Seconds that the whole may take."""
    tasks: float | None
    ends: tuple[float | None, float | None, float | None]

    @classmethod
    def of(cls, spec: Object, status: Object, now: float) -> _Limits:
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
        return self.ends[0] is not None and now >= self.ends[0]

    def tasks_over(self, now: float) -> bool:
        return self.ends[1] is not None and now >= self.ends[1]

    def finally_over(self, now: float) -> bool:
        return self.ends[2] is not None and now >= self.ends[2]

    def next(self, now: float) -> float | None:
        """Return the seconds until the next of them."""
        left = [end - now for end in self.ends if end is not None and end > now]
        return min(left) if left else None


def _by_task(found: Sequence[Object], nodes: Mapping[str, Node]) -> dict[str, list[Object]]:
    out: dict[str, list[Object]] = {}
    for child in found:
        task = labels_of(child).get(LABEL_PIPELINE_TASK, "")
        if task in nodes:
            out.setdefault(task, []).append(child)
    for runs in out.values():
        runs.sort(key=lambda run: (len(name_of(run)), name_of(run)))
    return out


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
        Create(resource=PERSISTENTVOLUMECLAIMS, object=claim)
        for claim in claims(run, objects(spec, "workspaces"))
        if name_of(claim) not in observed.claims
    ]
    making = Making(run, spec, pipeline, observed.tasks)
    free = _free(observed)
    for node in facts.ready():
        try:
            wanted = children(making, node, facts.scope(node))
        except WorkspaceError as error:
            raise Refused("InvalidWorkspaceBindings", str(error)) from error
        there = {name_of(child) for child in facts.runs(node.name)}
        new = [child for child in wanted if name_of(child) not in there][:free]
        free = None if free is None else free - len(new)
        actions += [Create(resource=_CHILD[str(child["kind"])], object=child) for child in new]
    return actions


def _free(observed: Observed) -> int | None:
    """Return how many children may start now; None without a limit."""
    text = texts(section(observed.run, "metadata"), "annotations").get(AT_ONCE_ANNOTATION, "")
    if not text.isdigit():
        return None
    return max(int(text) - sum(not conditions.is_done(child) for child in observed.children), 0)


def _describe(observed: Observed, status: Object, facts: Facts, made: Sequence[Object] = ()) -> None:
    """Write child references and skipped tasks."""
    new = _by_task(made, facts.nodes)
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


def _judged(
    observed: Observed,
    status: Object,
    facts: Facts,
    limits: _Limits,
    actions: list[Action],
    events: list[Event],
    held: Circumstances,
) -> Plan:
    now = observed.now
    standings = {node.name: facts.standing(node.name) for node in facts.nodes.values()}
    starting = {labels_of(a.object).get(LABEL_PIPELINE_TASK) for a in actions if isinstance(a, Create)}
    skipped = [name for name in standings if facts.skip(name)]
    ignored = [n for n, s in standings.items() if s == "failed" and facts.nodes[n].goes_on]
    failed = [n for n, s in standings.items() if s == "failed" and n not in ignored]
    cancelled = [n for n, s in standings.items() if s == "cancelled"]
    succeeded = [n for n, s in standings.items() if s == "succeeded" and n not in starting]
    completed = len(succeeded) + len(failed) + len(cancelled) + len(ignored)
    incomplete = len(standings) - completed - len(skipped)
    if incomplete == 0:
        return _ended(
            observed, status, facts, events, held, limits, failed, cancelled, ignored, skipped, completed
        )
    if held.tasks_timed_out:
        reason = "PipelineRunTimeoutRunningFinally"
    elif held.stop == "CancelledRunFinally":
        reason = "CancelledRunningFinally"
    elif held.stop == "StoppedRunFinally":
        reason = "StoppedRunningFinally"
    elif cancelled or (failed and all(facts.is_over(node.name) for node in facts.final)):
        reason = "PipelineRunStopping"
    else:
        reason = "Running"
    message = (
        f"Tasks Completed: {completed} (Failed: {len(failed)}, Cancelled {len(cancelled)}), "
        f"Incomplete: {incomplete}, Skipped: {len(skipped)}"
    )
    if conditions.mark(status, "Unknown", reason, message, now):
        events.append(Event("Normal", reason, message))
    return Plan(actions=tuple(actions), status=status, events=tuple(events), requeue_after=limits.next(now))


def _ended(
    observed: Observed,
    status: Object,
    facts: Facts,
    events: list[Event],
    held: Circumstances,
    limits: _Limits,
    failed: list[str],
    cancelled: list[str],
    ignored: list[str],
    skipped: list[str],
    completed: int,
) -> Plan:
    run, now = observed.run, observed.now
    counts = f"Failed: {len(failed) + len(ignored)}"
    if ignored:
        counts += f" (Ignored: {len(ignored)})"
    message = f"Tasks Completed: {completed} ({counts}, Cancelled {len(cancelled)}), Skipped: {len(skipped)}"
    value: conditions.State = "False"
    if held.tasks_timed_out:
        reason = "PipelineRunTimeout"
        message = f'PipelineRun "{name_of(run)}" failed due to tasks failed to finish within "{go(limits.tasks or 0)}"'
    elif failed or any(facts.skip(name) in TIMEOUTS for name in skipped):
        reason = "Failed"
    elif held.stop in ("CancelledRunFinally", "StoppedRunFinally"):
        reason, message = "Cancelled", f'PipelineRun "{name_of(run)}" was cancelled'
    elif cancelled:
        reason = "Cancelled"
    else:
        value, reason = "True", "Completed" if skipped else "Succeeded"
    if value == "True" or failed:
        results = _results(status["pipelineSpec"], facts)
        if results:
            status["results"] = results
    return _over(run, status, events, value, reason, message, now)


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


def _over(
    run: Object,
    status: Object,
    events: list[Event],
    value: conditions.State,
    reason: str,
    message: str,
    now: float,
) -> Plan:
    conditions.mark(status, value, reason, message, now)
    status["completionTime"] = format_time(now)
    sort = ("Normal", "Succeeded") if value == "True" else ("Warning", "Failed")
    told = Event("Normal" if sort[0] == "Normal" else "Warning", sort[1], message)
    return Plan(status=status, events=(*events, told))
