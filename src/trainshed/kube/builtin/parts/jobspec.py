"""Rules of a job's spec, a Job's own or a CronJob template's.

Source of rules and texts: `pkg/apis/batch/validation` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, spec_of
from trainshed.kube.schema.metadata import selector_causes


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
    policy = spec_of(template).get("restartPolicy")
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
