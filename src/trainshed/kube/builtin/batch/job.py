"""Jobs. A new one takes selector and labels from its uid, after its defaults and before its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import (
    Columns,
    age,
    containers,
    define,
    label_selector,
    template_spec,
)
from trainshed.kube.builtin.parts.jobspec import job_spec_causes, job_warnings
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.workload import IMMUTABLE, fixed_causes, selects, template_defaults
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import path
from trainshed.kube.meta.objects import (
    Object,
    copy_tree,
    is_true,
    metadata_of,
    name_of,
    section,
    spec_of,
    status_of,
)
from trainshed.kube.meta.resources import JOBS
from trainshed.kube.meta.times import time_or_none

_UNLIMITED_BACKOFF = 2147483647
_NAME_MAX = 63
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _defaults(obj: Object) -> None:
    """Fill in a Job; its selector, and the labels that go with it, need the uid: `_identify`."""
    spec = setdefault(obj, "spec", {})
    _job_spec(spec)
    labels = section(spec, "template", "metadata", "labels")
    if labels and not section(
        obj, "metadata", "labels"
    ):  # as upstream: one without labels has the template's
        setdefault(obj, "metadata", {})["labels"] = (
            labels  # the same, so that a new one gets those of `_identify`
        )
    obj.setdefault("status", {})


def _job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _UNLIMITED_BACKOFF
    setdefault(spec, "completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    # KEP-3939: with a pod failure policy a replacement waits until the pod has really failed.
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    setdefault(spec, "podReplacementPolicy", policy)
    if spec.get("podFailurePolicy") is not None:
        spec["podFailurePolicy"]["rules"] = spec["podFailurePolicy"].get("rules") or None
    for rule in section(spec, "podFailurePolicy").get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            setdefault(pattern, "status", "True")
    template_defaults(spec)


def _identify(job: Object) -> Object:
    """Return a new Job with its generated selector and labels; `metadata.uid` is set already.

    With `manualSelector: true` the selector is the user's and none is added; without a name it is refused later.
    """
    spec = spec_of(job)
    if not name_of(job):
        return job
    if spec.get("manualSelector"):
        return job
    labelled = section(job, "metadata", "labels")
    defaulted = not labelled or labelled is section(spec, "template", "metadata", "labels")
    out: Object = copy_tree(job)
    meta, spec = out["metadata"], out["spec"]
    uid, labels = meta["uid"], _generated(job)
    template_meta = setdefault(spec.setdefault("template", {}), "metadata", {})
    template_meta["labels"] = {**section(template_meta, "labels"), **labels}
    selector = setdefault(spec, "selector", {})
    selector["matchLabels"] = {"batch.kubernetes.io/controller-uid": uid, **section(selector, "matchLabels")}
    if defaulted:
        meta["labels"] = dict(template_meta["labels"])
    return out


def _generated(job: Object) -> dict[str, str]:
    """Return the labels that a Job gives its pods."""
    uid, name = metadata_of(job).get("uid", ""), name_of(job)
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Job whose selector and labels have been generated."""
    if subresource == "status":
        return
    name = name_of(obj)
    if len(name) > _NAME_MAX:
        yield causes.invalid("metadata.name", name, f"must be no more than {_NAME_MAX} characters")
    spec = spec_of(obj)
    yield from job_spec_causes(spec, "spec")
    labels = section(spec, "template", "metadata", "labels")
    selector = spec.get("selector")
    if old is None and not spec.get("manualSelector") and selector and not selects(selector, _generated(obj)):
        text = "`selector` not auto-generated"
        yield causes.invalid_shown("spec.selector", golang.label_selector(selector), text)
    if selector and not selects(selector, labels):
        yield causes.invalid_shown(
            "spec.template.metadata.labels",
            golang.strings(labels),
            "`selector` does not match template `labels`",
        )
    if old is not None:
        yield from _changes(spec, old)


def _changes(spec: Object, old: Object) -> Iterator[Cause]:
    before = spec_of(old)
    yield from fixed_causes(
        spec, before, "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"
    )
    yield from fixed_causes(spec, before, "managedBy", "successPolicy")
    if spec.get("completions") != before.get("completions"):
        # An elastic Indexed job changes both counts together.
        elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
            "parallelism"
        )
        if not elastic:
            yield causes.invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    new, held = section(spec, "template"), section(before, "template")
    if before.get("suspend") and not status_of(old).get("startTime"):
        # KEP-2926: a queue such as Kueue narrows where a suspended job may run before it starts it.
        new, held = _without_scheduling(new), _without_scheduling(held)
    if new != held:
        yield causes.invalid("spec.template", spec.get("template"), IMMUTABLE)


def _without_scheduling(template: Object) -> Object:
    meta = {k: v for k, v in metadata_of(template).items() if k not in ("labels", "annotations")}
    spec = {k: v for k, v in spec_of(template).items() if k not in _SCHEDULING}
    return {**template, "metadata": meta, "spec": spec}


def _job_status(obj: Object) -> str:
    for finished in ("Complete", "Failed"):
        if is_true(obj, finished):
            return finished
    if metadata_of(obj).get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(obj, kind):
            return kind
    return "Running"


def _completions(obj: Object) -> str:
    succeeded = status_of(obj).get("succeeded", 0)
    completions, parallelism = spec_of(obj).get("completions"), spec_of(obj).get("parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: float) -> str:
    started = time_or_none(status_of(obj).get("startTime"))
    ended = time_or_none(status_of(obj).get("completionTime"))
    if started is None:
        return ""
    return human((now if ended is None else ended) - started)


def _row(obj: Object, now: float) -> list[Any]:
    return [
        name_of(obj),
        _job_status(obj),
        _completions(obj),
        _job_duration(obj, now),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec_of(obj).get("selector")),
    ]


KIND = Builtin(
    info=row(JOBS, categories=ALL, subresources=STATUS, generation=True),
    does="completions, parallelism, back-off limits, deadline, time to live, suspend, indexes, policies of failure and "
    "success",
    defaults=_defaults,
    identify=_identify,
    check=_check,
    warns=job_warnings("spec"),
    columns=Columns(
        define("Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*"), _row
    ),
    fields={"status.successful": path("status", "succeeded", absent="0")},
    viewed=("", "status"),
    edited=("",),
)
