"""Rules of workloads: selectors that fit their templates, counts, and what may not change later.

Source of rules and texts: `pkg/apis/apps/validation` and `pkg/apis/batch/validation` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.builtin.validation_storage import claim_spec_causes
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.schema.metadata import selector_causes

IMMUTABLE = "field is immutable"
_NAME_LABEL_MAX = 63
_CRON_NAME_MAX = 52
_MACROS = re.compile(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)")
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def deployment_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Deployment."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    yield from _replicated(spec, "deployment")
    counts = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    yield from non_negative(spec, "spec", *counts)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        text = "must be greater than minReadySeconds"
        yield causes.invalid("spec.progressDeadlineSeconds", deadline, text)
    strategy = spec.get("strategy") or {}
    yield from one_of(strategy, "spec.strategy", "type", ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield causes.forbidden("spec.strategy.rollingUpdate", text)
    elif rolling:
        yield from _rolling(rolling, "spec.strategy.rollingUpdate")
    if old is not None:
        yield from _fixed(spec, old.get("spec") or {}, "selector")


def replica_set_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ReplicaSet."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    yield from _replicated(spec, "replicaset")
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds")
    if old is not None:
        yield from _fixed(spec, old.get("spec") or {}, "selector")


def daemon_set_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a DaemonSet."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    yield from _replicated(spec, "daemonset")
    yield from non_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    yield from one_of(
        spec.get("updateStrategy") or {}, "spec.updateStrategy", "type", ("OnDelete", "RollingUpdate")
    )
    if old is not None:
        yield from _fixed(spec, old.get("spec") or {}, "selector")


def stateful_set_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a StatefulSet."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    yield from _replicated(spec, "statefulset")
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from one_of(spec, "spec", "podManagementPolicy", ("OrderedReady", "Parallel"))
    yield from one_of(
        spec.get("updateStrategy") or {}, "spec.updateStrategy", "type", ("OnDelete", "RollingUpdate")
    )
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from claim_spec_causes(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    if old is not None:
        before = old.get("spec") or {}
        changed = [k for k in {*spec, *before} - set(_STATEFUL_MUTABLE) if spec.get(k) != before.get(k)]
        if changed:
            listed = ", ".join(f"'{field}'" for field in _STATEFUL_MUTABLE[:-1])
            yield causes.forbidden(
                "spec",
                f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden",
            )


def replication_controller_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ReplicationController, whose selector is a plain map."""
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds")
    if not selector:
        yield causes.required("spec.selector")
    if template is None:
        yield causes.required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and not LabelSelector.from_labels(selector).matches(labels):
        yield causes.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    yield from template_causes(template, "spec.template")


def _replicated(spec: Object, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with a selector, its template and the two together; pods always restart."""
    selector, template = spec.get("selector"), spec.get("template")
    yield from selector_causes(selector, "spec.selector")
    empty = selector is not None and not any(selector.get(k) for k in ("matchLabels", "matchExpressions"))
    if selector is None:
        yield causes.required("spec.selector")
    elif empty:
        yield causes.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
    if template is None:
        yield causes.required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and not empty and not _selects(selector, labels):
        yield causes.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    yield from template_causes(template, "spec.template")
    pod = template.get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        yield causes.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield causes.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    try:
        return LabelSelector.from_object(selector).matches(labels)
    except ApiError:
        return True  # what is wrong with the selector has been said


def _rolling(rolling: Object, path: str) -> Iterator[Cause]:
    zero = 0
    for field in ("maxUnavailable", "maxSurge"):
        value = rolling.get(field)
        if value is None:
            continue
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            yield causes.invalid(f"{path}.{field}", value, text)
        elif isinstance(value, int) and value < 0:
            yield causes.invalid(f"{path}.{field}", value, "must be greater than or equal to 0")
        zero += value in (0, "0%")
    if zero == 2:
        text = "may not be 0 when `maxSurge` is 0"
        yield causes.invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), text)


def _fixed(spec: Object, old: Object, *fields: str) -> Iterator[Cause]:
    for field in fields:
        if spec.get(field) != old.get(field):
            yield causes.invalid(f"spec.{field}", spec.get(field), IMMUTABLE)


# -------------------------------------------------------------------------------------------------- batch


def job_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Job whose selector and labels have been generated."""
    if subresource == "status":
        return
    name = (obj.get("metadata") or {}).get("name") or ""
    if len(name) > _NAME_LABEL_MAX:
        yield causes.invalid("metadata.name", name, f"must be no more than {_NAME_LABEL_MAX} characters")
    spec = obj.get("spec") or {}
    yield from job_spec_causes(spec, "spec")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if selector and not _selects(selector, labels):
        yield causes.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    if old is not None:
        yield from _job_changes(spec, old)


def job_spec_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a job's spec, a Job's or a CronJob template's."""
    counts = (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    )
    yield from non_negative(spec, path, *counts, "backoffLimitPerIndex", "maxFailedIndexes")
    yield from selector_causes(spec.get("selector"), f"{path}.selector")
    yield from one_of(spec, path, "completionMode", ("Indexed", "NonIndexed"))
    yield from one_of(spec, path, "podReplacementPolicy", ("Failed", "TerminatingOrFailed"))
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            text = "when completion mode is Indexed"
            yield causes.required(f"{path}.completions", text)
    elif spec.get("backoffLimitPerIndex") is not None:
        text = "requires indexed completion mode"
        yield causes.invalid(f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], text)
    template = spec.get("template")
    if template is None:
        yield causes.required(f"{path}.template")
        return
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        at = f"{path}.template.spec.restartPolicy"
        yield causes.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield causes.unsupported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
    yield from (
        cause
        for cause in template_causes(template, f"{path}.template")
        if not cause.field.endswith(".restartPolicy")
    )


def _job_changes(spec: Object, old: Object) -> Iterator[Cause]:
    before = old.get("spec") or {}
    yield from _fixed(spec, before, "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")
    yield from _fixed(spec, before, "managedBy", "successPolicy")
    if spec.get("completions") != before.get("completions"):
        # An elastic Indexed job changes both counts together.
        elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
            "parallelism"
        )
        if not elastic:
            yield causes.invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    new, held = spec.get("template") or {}, before.get("template") or {}
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        # KEP-2926: a queue such as Kueue narrows where a suspended job may run before it starts it.
        new, held = _without_scheduling(new), _without_scheduling(held)
    if new != held:
        yield causes.invalid("spec.template", spec.get("template"), IMMUTABLE)


def _without_scheduling(template: Object) -> Object:
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in _SCHEDULING}
    return {**template, "metadata": meta, "spec": spec}


def cron_job_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a CronJob."""
    if subresource == "status":
        return
    name = (obj.get("metadata") or {}).get("name") or ""
    if len(name) > _CRON_NAME_MAX:
        yield causes.invalid("metadata.name", name, f"must be no more than {_CRON_NAME_MAX} characters")
    spec = obj.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        yield causes.required("spec.schedule")
    else:
        yield from _schedule(schedule)
    yield from one_of(spec, "spec", "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    yield from non_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    yield from job_spec_causes((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


def _schedule(schedule: str) -> Iterator[Cause]:
    fields: list[Any] = schedule.split()
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield causes.invalid("spec.schedule", schedule, text)
    elif schedule.startswith("@"):
        if not _MACROS.fullmatch(schedule):
            yield causes.invalid("spec.schedule", schedule, f"unrecognized descriptor: {schedule}")
    elif len(fields) != 5:
        text = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        yield causes.invalid("spec.schedule", schedule, text)
