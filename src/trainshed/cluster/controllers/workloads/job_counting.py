"""A Job's pods by what they count for, each finished one once (KEP-2307)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.cluster.controllers.workloads.job_draft import Draft
from trainshed.cluster.controllers.workloads.job_pods import (
    index_of,
    is_tracked,
    outcome,
    parse_indexes,
)
from trainshed.cluster.controllers.workloads.job_policies import (
    Indexes,
    indexes,
    judged,
)
from trainshed.kube.meta.objects import Object, is_terminating, is_true, section, status_of
from trainshed.kube.meta.pods import is_active, phase

FAILURE_TARGET = "FailureTarget"
"""The condition of a job whose failure is certain."""


class Count(msgspec.Struct):
    """Pods by what they count for."""

    active: list[Object]
    terminating: int
    succeeded: int
    failed: int
    completed: set[int]
    indexes: Indexes | None
    """Of a job with `backoffLimitPerIndex`."""


def count_pods(job: Object, pods: Sequence[Object], plan: Draft) -> Count:
    """Count the pods; write to the plan who is newly counted and who may lose the finalizer."""
    spec, before = job["spec"], status_of(job)
    indexed = spec.get("completionMode") == "Indexed"
    only_finished = spec.get("podReplacementPolicy") == "Failed"
    known: dict[str, list[str]] = {
        name: list(section(before, "uncountedTerminatedPods").get(name) or ())
        for name in ("succeeded", "failed")
    }
    totals = {name: int(before.get(name) or 0) for name in known}
    tracked = {pod["metadata"]["uid"] for pod in pods if is_tracked(pod)}
    completed = parse_indexes(before.get("completedIndexes", "")) if indexed else set()
    per_index = None
    if indexed and spec.get("backoffLimitPerIndex") is not None:
        failing = is_true(job, FAILURE_TARGET)
        over = [
            pod
            for pod in pods
            if outcome(pod, only_finished=only_finished) == "failed"
            # What was let go is counted already, or is not to be: the job is suspended, say.
            and is_tracked(pod)
            # A job that fails ends the pods of its other indexes, which have not failed by themselves.
            and not (failing and is_terminating(pod))
        ]
        per_index = indexes(job, pods, over, parse_indexes(before.get("failedIndexes", "")))
    held_back = frozenset[str]() if per_index is None else per_index.waiting
    waiting: dict[str, list[str]] = {}
    for name, uids in known.items():
        totals[name] += sum(uid not in tracked for uid in uids)  # step 3
        waiting[name] = [uid for uid in uids if uid in tracked]
    for pod in pods:
        result = outcome(pod, only_finished=only_finished)
        if not result or not is_tracked(pod):
            continue
        uid = pod["metadata"]["uid"]
        if uid in held_back:
            continue
        plan.untrack.append(pod)  # step 2, after the status with step 1 is written
        if result == "failed" and judged(job, pod).action == "Ignore":
            continue
        if indexed and result == "succeeded":
            if (index := index_of(pod)) is not None:
                completed.add(index)
        elif uid not in waiting[result]:
            waiting[result].append(uid)
    if indexed:
        completed = {index for index in completed if index < int(spec["completions"])}
        totals["succeeded"], waiting["succeeded"] = len(completed), []
    plan.status["uncountedTerminatedPods"] = {name: uids for name, uids in waiting.items() if uids}
    plan.status.update(totals)
    ending = [p for p in pods if p["metadata"].get("deletionTimestamp") and not _is_over(p)]
    return Count(
        active=[pod for pod in pods if is_active(pod)],
        terminating=len(ending),
        succeeded=totals["succeeded"] + len(waiting["succeeded"]),
        failed=totals["failed"] + len(waiting["failed"]),
        completed=completed,
        indexes=per_index,
    )


def _is_over(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed") or not pod["metadata"].get("deletionGracePeriodSeconds", 1)
