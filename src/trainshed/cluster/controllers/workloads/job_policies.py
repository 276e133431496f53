"""What a Job's policies make of its pods: failures that fail the job or an index, or do not count; early success. Pure.

Source: batch/v1 PodFailurePolicy (KEP-3329), backoffLimitPerIndex (KEP-3850), SuccessPolicy (KEP-3998).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from trainshed.cluster.controllers.workloads.job_pods import backoff, count_of, index_of, parse_indexes
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section, spec_of
from trainshed.kube.meta.pods import container_statuses, init_container_statuses, phase

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of pods: how many pods of its index failed before it."""
IGNORED_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Likewise, of those whose failure does not count."""


class Match(msgspec.Struct, frozen=True):
    """The rule of a podFailurePolicy that a failed pod matches."""

    action: str
    message: str


COUNTED = Match("Count", "")


def judged(job: Object, pod: Object) -> Match:
    """Return what the failure policy says of a failed pod; `Count` where it says nothing."""
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    for number, rule in enumerate(objects(section(job, "spec", "podFailurePolicy"), "rules")):
        action = str(rule.get("action", "Count"))
        matching = f"matching {action} rule at index {number}"
        codes = section(rule, "onExitCodes")
        if codes:
            failed = _exit(pod, codes)
            if failed is not None:
                name, code = failed
                return Match(
                    action, f"Container {name} for pod {where} failed with exit code {code} {matching}"
                )
            continue
        for pattern in objects(rule, "onPodConditions"):
            if _has(pod, pattern):
                return Match(action, f"Pod {where} has condition {pattern.get('type')} {matching}")
    return COUNTED


def _exit(pod: Object, wanted: Object) -> tuple[str, int] | None:
    only = wanted.get("containerName")
    values = wanted.get("values") or ()
    for status in (*init_container_statuses(pod), *container_statuses(pod)):
        ended = section(status, "state", "terminated")
        code = int(ended.get("exitCode") or 0)
        if not code or (only and status.get("name") != only):
            continue
        if (code in values) == (wanted.get("operator") == "In"):
            return str(status.get("name", "")), code
    return None


def _has(pod: Object, pattern: Object) -> bool:
    return any(
        condition.get("type") == pattern.get("type")
        and condition.get("status") == pattern.get("status", "True")
        for condition in objects(section(pod, "status"), "conditions")
    )


class Indexes(msgspec.Struct, frozen=True):
    """The indexes of a job with `backoffLimitPerIndex`.

    Attributes:
        failed: those that are given up.
        last: the failed pod of each other index that has to be replaced, or whose replacement runs.
        waiting: uids of failed pods that keep their finalizer until there is a replacement: it takes over their count.
    """

    failed: frozenset[int]
    last: dict[int, Object]
    waiting: frozenset[str]


def indexes(job: Object, pods: Sequence[Object], over: Iterable[Object], known: AbstractSet[int]) -> Indexes:
    """Return what became of the indexes.

    Args:
        over: the pods that have failed.
        known: the indexes that had failed before.
    """
    limit = int(spec_of(job)["backoffLimitPerIndex"])
    newest: dict[int, int] = {}
    for pod in pods:
        index = index_of(pod)
        if index is not None:
            newest[index] = max(newest.get(index, -1), _generation(pod))
    failed, last, waiting = set(known), {}, set()
    for pod in over:
        index = index_of(pod)
        if index is None:
            continue
        match = judged(job, pod)
        counts = match.action != "Ignore"
        if match.action == "FailIndex" or (counts and count_of(pod, FAILURE_COUNT) >= limit):
            failed.add(index)
        elif _generation(pod) == newest[index]:
            last[index] = pod
            waiting.add(pod["metadata"]["uid"])
    completions = int(spec_of(job)["completions"])
    kept = {index for index in failed if index < completions}
    last = {index: pod for index, pod in last.items() if index not in kept}
    uids = {pod["metadata"]["uid"] for pod in last.values()}
    return Indexes(frozenset(kept), last, frozenset(waiting & uids))


def _generation(pod: Object) -> int:
    """Return the how-manyth pod of its index this is."""
    return count_of(pod, FAILURE_COUNT) + count_of(pod, IGNORED_COUNT)


def next_counts(job: Object, failed: Object | None) -> dict[str, str]:
    """Return the annotations of the pod that replaces `failed`, or of the first one."""
    counts = {FAILURE_COUNT: 0, IGNORED_COUNT: 0}
    if failed is not None:
        ignored = judged(job, failed).action == "Ignore"
        counts = {name: count_of(failed, name) for name in counts}
        counts[IGNORED_COUNT if ignored else FAILURE_COUNT] += 1
    return {name: str(count) for name, count in counts.items() if count or name == FAILURE_COUNT}


def replaced_in(failed: Object, now: float) -> float:
    """Return the seconds until the failed pod of an index may be replaced: 10, 20, 40 … with its count."""
    return backoff([failed], now, failures=_generation(failed) + 1)


def success(job: Object, completed: AbstractSet[int]) -> str:
    """Return the message of the success rule that the completed indexes meet; empty when there is none."""
    for number, rule in enumerate(objects(section(job, "spec", "successPolicy"), "rules")):
        wanted = rule.get("succeededIndexes")
        among = completed if wanted is None else completed & parse_indexes(str(wanted))
        needed = rule.get("succeededCount")
        if needed is None:
            needed = len(parse_indexes(str(wanted or "")))
        if len(among) >= int(needed) > 0:
            return f"Matched rules at index {number}"
    return ""


def given_up(job: Object, failed: AbstractSet[int], completed: AbstractSet[int]) -> tuple[str, str] | None:
    """Return reason and message of a job that has lost too many of its indexes, or has no other left."""
    spec = spec_of(job)
    most = spec.get("maxFailedIndexes")
    if most is not None and len(failed) > int(most):
        text = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", text
    if failed and len(failed) + len(completed) >= int(spec["completions"]):
        return "FailedIndexes", "Job has failed indexes"
    return None


def fail_job(job: Object, pods: Iterable[Object]) -> tuple[str, str] | None:
    """Return reason and message of a job that one of its failed pods fails by the policy."""
    if not section(job, "spec", "podFailurePolicy"):
        return None
    for pod in pods:
        if phase(pod) == "Failed" and (match := judged(job, pod)).action == "FailJob":
            return "PodFailurePolicy", match.message
    return None
