"""What a CustomRun of our kind `DistributedStep` needs next: the job that it owns. Pure.

The job is `spec.customSpec.spec.job` with `$(params.NAME)` and `$(workspaces.NAME.claim)` replaced in every string, one
per attempt. Its end is the end of the attempt. Metrics are what its pods left as their last words, in the form in
which a step of a task leaves its results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainshed.kube.meta.objects import (
    Object,
    condition,
    copy_tree,
    is_terminating,
    is_true,
    labels_of,
    name_of,
    namespace_of,
    objects,
    section,
    status_of,
    texts,
)
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Create, Delete, Event, Plan
from trainshed.kube.meta.pods import is_finished
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.kube.meta.times import format_time, parse_time
from trainshed.tekton import conditions
from trainshed.tekton.draft import Draft
from trainshed.tekton.durations import go, seconds
from trainshed.tekton.params import values_of
from trainshed.tekton.resources import LABEL_CUSTOM_RUN, child_name
from trainshed.tekton.steps import task_results
from trainshed.tekton.variables import replace
from trainshed.tekton.workspaces import mounted, task_scope

API_VERSION = "trainshed.dev/v1alpha1"
KIND = "DistributedStep"
_LONGEST_JOB = 44
"""Characters: names of pods and of their Services are made from it."""
CANCELLED = "CustomRunCancelled"
_LEAVING_SECONDS = 1.0
"""How soon to look again whether deleted pods are gone."""


class Observed(msgspec.Struct, frozen=True):
    """A CustomRun, the jobs that it owns and their pods. `kinds` are the kinds of jobs that there are."""

    run: Object
    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    kinds: Mapping[tuple[str, str], Resource] = {}
    """By apiVersion and kind."""
    now: float = 0.0


def is_ours(run: Object) -> bool:
    """Return whether the CustomRun is of our kind."""
    custom = section(run, "spec", "customSpec") or section(run, "spec", "customRef")
    return custom.get("apiVersion") == API_VERSION and custom.get("kind") == KIND


def job_name(run: Object) -> str:
    """Return the name of the job of the attempt that is on."""
    attempt = len(objects(status_of(run), "retriesStatus"))
    suffix = f"-retry{attempt}" if attempt else ""
    name = name_of(run)
    if len(name) + len(suffix) > _LONGEST_JOB:
        digest = child_name("", name.rjust(64, "-"))[:8]
        name = f"{name[: _LONGEST_JOB - len(suffix) - 9].rstrip('-.')}-{digest}"
    return f"{name}{suffix}".replace(".", "-")


def decide(observed: Observed) -> Plan:
    """Return what to do about the run now: nothing about those of other controllers."""
    run, now = observed.run, observed.now
    if not is_ours(run) or is_terminating(run) or conditions.is_done(run):
        return Plan()
    status: Object = copy_tree(status_of(run))
    draft = Draft(status, now)
    draft.begin()
    spec = section(run, "spec")
    template = section(spec, "customSpec", "spec", "job")
    resource = observed.kinds.get((str(template.get("apiVersion")), str(template.get("kind"))))
    job = next((j for j in observed.jobs if name_of(j) == job_name(run)), None)
    if resource is None:
        kinds = ", ".join(sorted(kind for _, kind in observed.kinds))
        text = f"spec.customSpec.spec.job: {template.get('kind') or 'no kind'} is none of {kinds}"
        return _ended(run, draft, "InvalidJob", text, final=True)
    if spec.get("status") == "RunCancelled":
        text = f'CustomRun "{name_of(run)}" was cancelled. {spec.get("statusMessage") or ""}'.strip()
        return _cut_short(run, draft, resource, job, CANCELLED, text)
    limit = seconds(spec.get("timeout"), None)
    left = None if limit is None else parse_time(status["startTime"]) + limit - now
    if left is not None and left <= 0 and not _is_over(job):
        text = f'CustomRun "{name_of(run)}" failed to finish within "{go(limit or 0)}"'
        return _cut_short(run, draft, resource, job, "CustomRunTimeout", text)
    if job is None:
        if section(status, "extraFields").get("job") == job_name(run):
            return _ended(run, draft, "JobDeleted", f"the job {job_name(run)} was deleted")
        made = _job(run, template)
        return Plan(
            actions=(Create(resource=resource, given=made),),
            status=status,
            events=tuple(draft.events),
            requeue_after=left,
        )
    status["extraFields"] = {"job": name_of(job), "kind": job.get("kind")}
    if is_true(job, "Succeeded"):
        results = task_results(observed.pods)
        if results:
            status["results"] = [{"name": name, "value": value} for name, value in results.items()]
        text = _message(job, "Succeeded")
        draft.ends("True", "Succeeded", text)
        return Plan(status=status, events=(*draft.events, Event("Normal", "Succeeded", text)))
    if is_true(job, "Failed"):
        text = _message(job, "Failed")
        behind = [pod for pod in observed.pods if not is_finished(pod)]
        if behind:  # ranks that have lost a peer; the next attempt must not meet them
            return Plan(
                actions=tuple(Delete.of(PODS, pod) for pod in behind if not is_terminating(pod)),
                events=tuple(draft.events),
                requeue_after=_LEAVING_SECONDS,
            )
        return _ended(run, draft, "JobFailed", text)
    reason = next(
        (w for w in ("Restarting", "Running", "Suspended", "Created") if is_true(job, w)), "Pending"
    )
    text = _message(job, reason) or f"{job.get('kind')} {name_of(job)} is {reason}"
    draft.goes_on(reason, text)
    return Plan(status=status, events=tuple(draft.events), requeue_after=left)


def _is_over(job: Object | None) -> bool:
    return job is not None and (is_true(job, "Succeeded") or is_true(job, "Failed"))


def _message(job: Object, kind: str) -> str:
    return str((condition(job, kind) or {}).get("message") or "")


def _job(run: Object, template: Object) -> Object:
    spec = section(run, "spec")
    given = objects(spec, "workspaces")
    bound = mounted([{"name": b.get("name")} for b in given], given)
    scope = {f"params.{k}": v for k, v in values_of(objects(spec, "params")).items()} | task_scope(bound)
    attempt = str(len(objects(status_of(run), "retriesStatus")))
    filled = replace(template, {**scope, "context.task.retry-count": attempt})
    for template_ in _pod_templates(section(filled, "spec")):
        own = section(template_, "metadata")
        template_["metadata"] = {**own, "labels": {**labels_of(run), **texts(own, "labels")}}
    metadata = section(filled, "metadata")
    return {
        **filled,
        "metadata": {
            "name": job_name(run),
            "namespace": namespace_of(run),
            "labels": {
                **texts(metadata, "labels"),
                **labels_of(run),
                **texts(section(spec, "customSpec", "metadata"), "labels"),
                LABEL_CUSTOM_RUN: name_of(run),
            },
            **({"annotations": metadata["annotations"]} if "annotations" in metadata else {}),
            "ownerReferences": [controller_reference(run)],
        },
    }


def _pod_templates(spec: Object) -> Iterator[Object]:
    """Yield the pod templates of a job's replica types, whatever they are called."""
    for replicas in spec.values():
        for replica in replicas.values() if isinstance(replicas, dict) else ():
            if isinstance(replica, dict) and isinstance(replica.get("template"), dict):
                yield replica["template"]


def _cut_short(
    run: Object, draft: Draft, resource: Resource, job: Object | None, reason: str, text: str
) -> Plan:
    """End an attempt whose job may still run: first that goes, with its pods, then the status says so."""
    if job is not None and not _is_over(job):
        events = tuple(draft.events)
        if is_terminating(job):
            return Plan(events=events)
        return Plan(actions=(Delete.of(resource, job, propagation="Foreground"),), events=events)
    return _ended(run, draft, reason, text, final=reason == CANCELLED)


def _ended(run: Object, draft: Draft, reason: str, text: str, *, final: bool = False) -> Plan:
    status, now = draft.status, draft.now
    earlier = objects(status, "retriesStatus")
    draft.ends("False", reason, text)
    if final or len(earlier) >= int(section(run, "spec").get("retries") or 0):
        return Plan(status=status, events=(*draft.events, Event("Warning", "Failed", text)))
    attempt = {key: value for key, value in status.items() if key != "retriesStatus"}
    fresh: Object = {"retriesStatus": [*earlier, attempt], "startTime": format_time(now)}
    conditions.mark(fresh, "Unknown", "ToBeRetried", text, now)
    return Plan(status=fresh, events=(*draft.events, Event("Normal", "ToBeRetried", text)))
