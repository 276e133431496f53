"""Rules of a job's spec, a Job's own or a CronJob template's.

Source of rules and texts: `pkg/apis/batch/validation` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainshed.kube.builtin.parts.jobpolicies import pod_failure_policy_causes, success_policy_causes
from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.builtin.parts.references import prefixed_path_causes
from trainshed.kube.builtin.parts.workload import is_new_or_changed, template_warnings
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.schema.metadata import selector_causes

_MODES = ("NonIndexed", "Indexed")
_MOST_INDEXES = 100_000


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
    if spec.get("completionMode") not in (None, *_MODES):
        yield causes.unsupported(f"{path}.completionMode", spec["completionMode"], _MODES)
    if spec.get("managedBy") is not None:
        yield from prefixed_path_causes(spec["managedBy"], f"{path}.managedBy")
    if spec.get("completionMode") == "Indexed":
        yield from _indexed_causes(spec, path)
    elif spec.get("completionMode") == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                yield causes.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield causes.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from pod_failure_policy_causes(spec, path)
    replacing = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    yield from one_of(spec, path, "podReplacementPolicy", replacing)
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") == "Indexed":
            yield from success_policy_causes(spec, path)
        else:
            yield causes.invalid(
                f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"
            )
    template = spec.get("template")
    if template is None:
        yield causes.required(f"{path}.template")
        return
    yield from (
        cause
        for cause in template_causes(template, f"{path}.template")
        if not cause.field.endswith(".restartPolicy") or cause.reason == "FieldValueNotSupported"
    )
    policy, at = spec_of(template).get("restartPolicy"), f"{path}.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        yield causes.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield causes.unsupported(at, policy, ("OnFailure", "Never"))
    elif policy != "Never":
        for field in ("podFailurePolicy", "backoffLimitPerIndex"):
            if spec.get(field) is not None:
                text = f'only "Never" is supported when {field} is specified'
                yield causes.invalid(at, policy, text)


def _indexed_causes(spec: Object, path: str) -> Iterator[Cause]:
    completions = spec.get("completions")
    if completions is None:
        yield causes.required(f"{path}.completions", "when completion mode is Indexed")
    if (spec.get("parallelism") or 0) > _MOST_INDEXES:
        text = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield causes.invalid(f"{path}.parallelism", spec["parallelism"], text)
    most = spec.get("maxFailedIndexes")
    if most is not None and completions is not None and most > completions:
        yield causes.invalid(f"{path}.maxFailedIndexes", most, "must be less than or equal to completions")


_MANY_COMPLETIONS, _MANY_AT_ONCE = 100_000, 10_000
_TOO_MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


def job_warnings(*path: str) -> Callable[[Object, Object | None], Iterator[str]]:
    """Return what yields the warnings of a Job's spec at `path`, when it is new or has changed."""
    of_template = template_warnings(*path, "template")

    def warns(obj: Object, old: Object | None) -> Iterator[str]:
        spec = section(obj, *path)
        if (
            is_new_or_changed(obj, old)
            and spec.get("completionMode") == "Indexed"
            and (spec.get("completions") or 0) > _MANY_COMPLETIONS
            and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
        ):
            yield f"{'.'.join(path)}: {_TOO_MANY_INDEXES}"
        yield from of_template(obj, old)

    return warns
