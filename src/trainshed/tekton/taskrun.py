"""What a TaskRun needs next: its pod, its status, another attempt. Pure.

    resolve   once: the task with parameters filled in goes into the status
    prepare   before its turn, where the task may be prepared: the pod starts, and waits (`ahead`)
    pod       one per attempt, with a deterministic name
    watch     what the containers say becomes steps and results
    end       done, failed, cancelled, out of time; with retries left, all over again

A pod that was seen and is gone has failed: nothing is run twice in one attempt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
from trainshed.kube.meta.plan import Action, Create, Delete, Event, Patch, Plan
from trainshed.kube.meta.pods import phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PODS
from trainshed.kube.meta.times import format_time, parse_time
from trainshed.tekton import ahead, conditions, steps
from trainshed.tekton.conditions import Refused
from trainshed.tekton.draft import Draft
from trainshed.tekton.durations import go, seconds
from trainshed.tekton.params import ParamError, declared_in, resolve, values_of
from trainshed.tekton.resources import LABEL_TASK, ON_ERROR_ANNOTATION, READY, READY_ANNOTATION, child_name
from trainshed.tekton.stepactions import StepActionError, with_actions
from trainshed.tekton.steps import Failure
from trainshed.tekton.taskpod import RESULTS, ROOT, Entrypoint, Task, merged_steps, pod, propagated, step_name
from trainshed.tekton.variables import Value, replace, unknown_indexes
from trainshed.tekton.workspaces import WorkspaceError, claims, mounted, require, task_scope, with_claims

_RUNNING = "Not all Steps in the Task have finished executing"
_FINAL = ("TaskRunCancelled", "TaskRunValidationFailed", "TaskRunResolutionFailed")
"""Ends after which no other attempt is made."""
_QUOTA_SECONDS = 60.0
"""When a pod is tried again that a quota refused."""


class Observed(msgspec.Struct, frozen=True):
    """A TaskRun and what belongs to it. `pods` are those that it owns."""

    run: Object
    pods: Sequence[Object] = ()
    task: Object | None = None
    actions: Mapping[str, Object] = {}
    """StepActions that it refers to, by name."""
    claims: frozenset[str] = frozenset()
    images: Mapping[str, Sequence[str]] = {}
    """The command of each image that has one."""
    entrypoint: Entrypoint = Entrypoint("python3", ("entrypoint.py",))
    refusal: str = ""
    """What the API just said when it refused the pod of this attempt."""
    now: float = 0.0


def pod_name(run: Object) -> str:
    """Return the name of the pod of the attempt that is on."""
    attempt = len(objects(status_of(run), "retriesStatus"))
    return child_name(name_of(run), f"-pod-retry{attempt}" if attempt else "-pod")


_ARTIFACT = re.compile(
    r"\$\((?:(?:step\.)?artifacts\.path|(?:steps|tasks)\.[^().]+\.(?:inputs|outputs)\b[^()]*)\)"
)
"""Variables of artifacts, in a step."""


def decide(observed: Observed) -> Plan:
    """Return what to do about the run now."""
    run, now = observed.run, observed.now
    if is_terminating(run):
        return Plan()
    if conditions.is_done(run):
        return Plan(actions=tuple(_leftover(observed.pods)))
    status: Object = copy_tree(status_of(run))
    spec: Object = copy_tree(spec_of(run))
    if spec.get("status") == "TaskRunPending" and not status.get("startTime"):
        conditions.mark(status, "Unknown", "TaskRunPending", f'TaskRun "{name_of(run)}" is pending', now)
        return Plan(status=status, actions=tuple(_prepared(observed, spec, status)))
    draft = Draft(status, now)
    draft.begin()
    found = next((p for p in observed.pods if name_of(p) == pod_name(run)), None)
    if spec.get("status") == "TaskRunCancelled":
        detail = f" {spec['statusMessage']}" if spec.get("statusMessage") else ""
        failed = Failure("TaskRunCancelled", f'TaskRun "{name_of(run)}" was cancelled.{detail}')
        return _cut_short(observed, spec, draft, found, failed)
    limit = seconds(spec.get("timeout"))
    left = None if limit is None else parse_time(status["startTime"]) + limit - now
    if left is not None and left <= 0 and not (found is not None and steps.is_complete(found)):
        failed = Failure(
            "TaskRunTimeout", f'TaskRun "{name_of(run)}" failed to finish within "{go(limit or 0)}"'
        )
        return _cut_short(observed, spec, draft, found, failed)
    try:
        task = _task(observed, spec, status)
    except Refused as error:
        return _failed(spec, draft, Failure(error.reason, str(error)))
    if found is None:
        if status.get("podName") == pod_name(run):
            gone = Failure(
                "PodDeleted", f'the pod "{status["podName"]}" was deleted before its steps were done'
            )
            status["steps"] = steps.ended_steps(objects(status, "steps"), "PodDeleted", 137, format_time(now))
            return _failed(spec, draft, gone)
        if observed.refusal:
            return _refused(observed, spec, draft)
        return _begun(observed, spec, draft, task, left)
    turn: list[Action] = []
    if texts(section(found, "metadata"), "annotations").get(READY_ANNOTATION) != READY:
        if status.get("podName") != name_of(found):
            # Nothing was begun in it yet: where it is no more, another takes its place.
            if is_terminating(found):
                return Plan(status=status, events=tuple(draft.events), requeue_after=left)
            if steps.is_complete(found) or steps.hopeless(found):
                again = (Delete.of(PODS, found),)
                return Plan(status=status, actions=again, events=tuple(draft.events), requeue_after=left)
        patch = {"metadata": {"annotations": {READY_ANNOTATION: READY}}}
        turn.append(Patch(resource=PODS, object=found, patch=patch))
    plan = _watched(observed, spec, draft, task, found, left)
    return msgspec.structs.replace(plan, actions=(*turn, *plan.actions))


def _prepared(observed: Observed, spec: Object, status: Object) -> list[Action]:
    """Return the pod that waits for the run's turn, if the run is prepared and has none."""
    run = observed.run
    if not ahead.is_prepared(run) or observed.pods or observed.refusal:
        return []
    try:
        task = _task(observed, spec, copy_tree(status))
    except Refused:
        return []  # its turn says so
    return [Create(resource=PODS, given=_pod(observed, spec, task, "0", ready=False))]


def _leftover(pods: Sequence[Object]) -> list[Action]:
    """Return the deletions of pods that nobody waits for any more."""
    return [Delete.of(PODS, p) for p in pods if not is_terminating(p) and not steps.is_complete(p)]


def _task(observed: Observed, spec: Object, status: Object) -> Task:
    """Return the task with everything filled in, and write its spec into the status. Raises Refused."""
    run = observed.run
    bindings = with_claims(run, objects(spec, "workspaces"))
    try:
        if not status.get("taskSpec"):
            status["taskSpec"] = _resolved(observed, spec, bindings)
    except ParamError as error:
        reason = "InvalidParamValue" if error.reason == "InvalidParamValue" else "TaskRunValidationFailed"
        raise Refused(reason, str(error)) from error
    except WorkspaceError as error:
        raise Refused("TaskRunValidationFailed", str(error)) from error
    resolved: Object = status["taskSpec"]
    return Task(resolved, tuple(mounted(objects(resolved, "workspaces"), bindings)))


def _resolved(observed: Observed, spec: Object, bindings: Sequence[Object]) -> Object:
    run = observed.run
    inline = spec.get("taskSpec")
    reference = section(spec, "taskRef")
    if not inline:
        resolver = reference.get("resolver") or ("bundles" if reference.get("bundle") else "")
        if resolver:
            raise Refused("TaskRunResolutionFailed", f"the resolver {resolver} is not served here")
        if observed.task is None:
            name = reference.get("name", "")
            raise Refused(
                "TaskRunResolutionFailed",
                f"failed to get task: error when listing tasks for taskRun {name_of(run)}: "
                f'tasks.tekton.dev "{name}" not found',
            )
        inline = copy_tree(spec_of(observed.task))
    declared = declared_in(inline)
    given = values_of(objects(spec, "params"))
    params = resolve(declared, given)
    older = {f"inputs.{name}": value for name, value in params.scope().items()}
    first = {**older, **params.scope(), **_context(observed, spec)}
    try:
        inline = with_actions(inline, observed.actions, first)
    except StepActionError as error:
        raise Refused("TaskRunResolutionFailed", str(error)) from error
    workspaces = propagated(inline, bindings)
    require(workspaces, bindings, "task", "taskrun")
    _check(inline)
    fixed = [replace(w, first) for w in workspaces]
    scope = {**first, **task_scope(mounted(fixed, bindings))}
    if wrong := unknown_indexes({k: v for k, v in inline.items() if k != "params"}, scope):
        raise Refused("TaskRunValidationFailed", f"out of an array's bounds: {', '.join(wrong)}")
    for index, step in enumerate(objects(inline, "steps")):
        name = step_name(step, index)
        scope[f"steps.step-{name}.exitCode.path"] = f"{ROOT}/steps/step-{name}/exitCode"
        scope[f"steps.{name}.exitCode.path"] = f"{ROOT}/steps/step-{name}/exitCode"
    for result in objects(inline, "results"):
        scope[f"results.{result.get('name')}.path"] = f"{RESULTS}/{result.get('name')}"
    scope["credentials.path"] = f"{ROOT}/creds"
    kept = {key: inline[key] for key in ("params", "results", "description", "displayName") if key in inline}
    out = {**kept, **replace({k: v for k, v in inline.items() if k not in kept and k != "steps"}, scope)}
    out["steps"] = [_filled_step(s, i, scope) for i, s in enumerate(merged_steps(inline, {}))]
    out.pop("stepTemplate", None)
    if workspaces:
        out["workspaces"] = fixed
    return out


def _filled_step(step: Object, index: int, scope: Mapping[str, Value]) -> Object:
    name = step_name(step, index)
    own = {
        f"step.results.{r.get('name')}.path": f"{ROOT}/steps/step-{name}/results/{r.get('name')}"
        for r in objects(step, "results")
    }
    out: Object = replace(step, {**scope, **own})
    return {**out, "name": name}


def _context(observed: Observed, spec: Object) -> dict[str, Value]:
    run = observed.run
    task = section(spec, "taskRef").get("name") or labels_of(run).get(LABEL_TASK) or name_of(run)
    return {
        "context.taskRun.name": name_of(run),
        "context.taskRun.namespace": namespace_of(run),
        "context.taskRun.uid": uid_of(run),
        "context.task.name": str(task),
    }


def _check(task: Object) -> None:
    names = [step_name(step, i) for i, step in enumerate(objects(task, "steps"))]
    if not names:
        raise Refused("TaskRunValidationFailed", "the task has no steps")
    for name in names:
        if names.count(name) > 1:
            raise Refused("TaskRunValidationFailed", f'step "{name}" is there more than once')
    for index, step in enumerate(objects(task, "steps")):
        found = _ARTIFACT.search(msgspec.json.encode(step).decode())
        if found:
            text = f'step "{step_name(step, index)}" refers to {found[0]}: artifacts are not served here'
            raise Refused("TaskRunValidationFailed", text)


def _refused(observed: Observed, spec: Object, draft: Draft) -> Plan:
    """The pod cannot be made: with a quota that is used up it may be later, otherwise the attempt has failed."""
    said = observed.refusal
    if "exceeded quota" in said:
        text = f"TaskRun Pod exceeded available resources: {said}"
        conditions.mark(draft.status, "Unknown", "ExceededResourceQuota", text, observed.now)
        return Plan(status=draft.status, events=tuple(draft.events), requeue_after=_QUOTA_SECONDS)
    if "violates PodSecurity" in said:
        return _failed(spec, draft, Failure("PodAdmissionFailed", said))
    name = section(spec, "taskRef").get("name")
    maybe = f"missing or invalid Task {namespace_of(observed.run)}/{name}" if name else "invalid TaskSpec"
    text = f'failed to create task run pod "{name_of(observed.run)}": {said}. Maybe {maybe}'
    return _failed(spec, draft, Failure("PodCreationFailed", text))


def _begun(observed: Observed, spec: Object, draft: Draft, task: Task, left: float | None) -> Plan:
    """Make the pod of this attempt, and the claims that it needs."""
    run = observed.run
    attempt = str(len(objects(draft.status, "retriesStatus")))
    actions: list[Action] = [
        Create(resource=PERSISTENTVOLUMECLAIMS, given=claim)
        for claim in claims(run, objects(spec, "workspaces"))
        if name_of(claim) not in observed.claims
    ]
    actions.append(Create(resource=PODS, given=_pod(observed, spec, task, attempt)))
    draft.goes_on("Pending", "Pending")
    return Plan(actions=tuple(actions), status=draft.status, events=tuple(draft.events), requeue_after=left)


def _pod(observed: Observed, spec: Object, task: Task, attempt: str, *, ready: bool = True) -> Object:
    filled = Task(replace(task.spec, {"context.task.retry-count": attempt}), task.workspaces)
    run, images = observed.run, observed.images
    if section(spec, "podTemplate"):
        params = resolve(declared_in(task.spec), values_of(objects(spec, "params"))).scope()
        template = replace(spec["podTemplate"], {**params, **_context(observed, spec)})
        spec = {**spec, "podTemplate": template}
    return pod(run, spec, filled, pod_name(run), observed.entrypoint, images, ready=ready)


def _watched(
    observed: Observed, spec: Object, draft: Draft, task: Task, found: Object, left: float | None
) -> Plan:
    status, now = draft.status, draft.now
    try:
        status.update(steps.describe(found, task.spec))
        _begin_with_turn(status)
        if steps.is_complete(found):
            failed = steps.failure(found)
            results = steps.results(found, task.spec)
            if results:
                status["results"] = results
            if failed is not None:
                if (
                    texts(section(observed.run, "metadata"), "annotations").get(ON_ERROR_ANNOTATION)
                    == "continue"
                ):
                    failed = msgspec.structs.replace(failed, reason="FailureIgnored")
                return _failed(spec, draft, failed)
            text = "All Steps have completed executing"
            draft.ends("True", "Succeeded", text)
            return Plan(status=status, events=(*draft.events, Event("Normal", "Succeeded", text)))
    except steps.ResultError as error:
        return _failed(spec, draft, Failure("TaskRunValidationFailed", str(error)))
    stuck = steps.hopeless(found)
    if stuck is not None:
        status["steps"] = steps.ended_steps(objects(status, "steps"), stuck.reason, 1, format_time(now))
        plan = _failed(spec, draft, stuck)
        return msgspec.structs.replace(plan, actions=tuple(_leftover([found])))
    if is_terminating(found):
        gone = Failure("PodDeleted", f'the pod "{name_of(found)}" was deleted before its steps were done')
        return _cut_short(observed, spec, draft, found, gone)
    reason, text = (
        ("Running", _RUNNING) if phase(found) == "Running" else ("Pending", steps.waiting_message(found))
    )
    draft.goes_on(reason, text)
    return Plan(status=status, events=tuple(draft.events), requeue_after=left)


def _begin_with_turn(status: Object) -> None:
    """Make no step begin before the attempt: that of a prepared pod has been waiting for its turn."""
    for step in objects(status, "steps"):
        for state in (section(step, "running"), section(step, "terminated")):
            if state.get("startedAt"):
                state["startedAt"] = max(str(state["startedAt"]), str(status["startTime"]))


def _cut_short(observed: Observed, spec: Object, draft: Draft, found: Object | None, failed: Failure) -> Plan:
    """End an attempt whose pod may still run: first the pod goes, then the status says so."""
    status = draft.status
    if found is not None and not is_terminating(found) and not steps.is_complete(found):
        return Plan(actions=(Delete.of(PODS, found),), events=tuple(draft.events))
    if found is not None:
        if is_terminating(found) and not steps.is_complete(found):
            return Plan(status=status, events=tuple(draft.events))  # its last words are still to come
        try:
            status.update(steps.describe(found, section(status, "taskSpec")))
        except steps.ResultError:
            pass  # it did not end by itself: a half-written result says nothing
    status["steps"] = steps.ended_steps(objects(status, "steps"), failed.reason, 1, format_time(observed.now))
    return _failed(spec, draft, failed)


def _failed(spec: Object, draft: Draft, failed: Failure) -> Plan:
    """Return the end of an attempt: of the run, or with retries left the begin of the next."""
    status, now = draft.status, draft.now
    earlier = objects(status, "retriesStatus")
    again = failed.reason not in _FINAL and len(earlier) < int(spec.get("retries") or 0)
    draft.ends("False", failed.reason, failed.message)
    if not again:
        return Plan(status=status, events=(*draft.events, Event("Warning", "Failed", failed.message)))
    attempt = {key: value for key, value in status.items() if key != "retriesStatus"}
    fresh: Object = {"retriesStatus": [*earlier, attempt], "startTime": format_time(now)}
    if "taskSpec" in status:
        fresh["taskSpec"] = status["taskSpec"]
    conditions.mark(fresh, "Unknown", "ToBeRetried", failed.message, now)
    told = Event("Normal", "ToBeRetried", failed.message)
    # The next attempt starts when this one is written down.
    return Plan(status=fresh, events=(*draft.events, told))
