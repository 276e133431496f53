"""What a batch/v1 Job needs next: counts, conditions, pods to make and to end. Pure.

The status is written first, then pods lose the finalizer, then they are deleted, then new ones are made.

Each finished pod is counted once, whatever crashes between the writes (KEP-2307):

    1. its uid enters status.uncountedTerminatedPods
    2. it loses the tracking finalizer
    3. its uid leaves the list and the counter grows

Conditions come in pairs: SuccessCriteriaMet or FailureTarget as soon as the end is known, Complete or Failed
when the last pod is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from trainshed.cluster.controllers.workloads.job_counting import FAILURE_TARGET, Count, count_pods
from trainshed.cluster.controllers.workloads.job_draft import Draft, untracking
from trainshed.cluster.controllers.workloads.job_pods import (
    backoff,
    format_indexes,
    index_of,
    is_tracked,
    outcome,
    restarts,
)
from trainshed.cluster.controllers.workloads.job_policies import (
    Indexes,
    fail_job,
    given_up,
    next_counts,
    replaced_in,
    success,
)
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, is_true, status_of
from trainshed.kube.meta.plan import Delete, Event, Plan
from trainshed.kube.meta.pods import is_active, is_ready, surplus
from trainshed.kube.meta.resources import JOBS
from trainshed.kube.meta.times import format_time, parse_time

REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
CRITERIA_MET = "SuccessCriteriaMet"


BUILT_IN = "kubernetes.io/job-controller"
"""`spec.managedBy` of the jobs that are ours, like none at all."""


class Observed(msgspec.Struct, frozen=True):
    """One job, None when it is gone, and the pods of its name, those of an earlier job of that name among them."""

    job: Object | None
    pods: Sequence[Object]
    now: float
    """Seconds since the epoch."""


def decide(observed: Observed) -> Plan:
    """Return the next step of a job."""
    job, now = observed.job, observed.now
    if job is not None and job["spec"].get("managedBy", BUILT_IN) != BUILT_IN:
        return Plan()
    if job is None or is_terminating(job):
        return Plan(actions=untracking(observed.pods))
    uid = job["metadata"]["uid"]
    pods = [pod for pod in observed.pods if controller_uid(pod) == uid]
    others = untracking([pod for pod in observed.pods if controller_uid(pod) != uid])
    plan = _decide(job, pods, now)
    return msgspec.structs.replace(plan, actions=(*others, *plan.actions))


def _decide(job: Object, pods: Sequence[Object], now: float) -> Plan:
    """Return the next step of a job of ours that is not being deleted, with all the pods that it controls."""
    before: Object = status_of(job)
    conditions = {c["type"]: c for c in before.get("conditions") or () if c["status"] == "True"}
    if COMPLETE in conditions or FAILED in conditions:
        return _after(job, pods, conditions, now)
    spec = job["spec"]
    plan = Draft(dict(before))
    status = plan.status
    count = count_pods(job, pods, plan)
    failure, deadline = _failure(job, count, before, now)
    failure = fail_job(job, pods) or failure
    if failure is None and count.indexes is not None:
        failure = given_up(job, count.indexes.failed, count.completed)
    met = _criteria_met(job, count, failure)
    suspend = bool(spec.get("suspend"))
    if not suspend and not status.get("startTime"):
        status["startTime"] = format_time(now)
        if spec.get("activeDeadlineSeconds") is not None:
            deadline = float(spec["activeDeadlineSeconds"])
    if FAILURE_TARGET in conditions:
        target = conditions[FAILURE_TARGET]
        failure = (target["reason"], target["message"])
    if CRITERIA_MET in conditions or (met is not None and FAILURE_TARGET not in conditions):
        held = conditions.get(CRITERIA_MET)
        reached: tuple[str, str] = (held["reason"], held["message"]) if held else met or REACHED
        _release(plan, pods, count)
        plan.set_condition(CRITERIA_MET, True, *reached, now)
        plan.drop(count.active)
        if not _left(plan, count):
            plan.set_condition(COMPLETE, True, *reached, now)
            status["completionTime"] = format_time(now)
            plan.events.append(Event("Normal", "Completed", "Job completed"))
    elif failure is not None:
        plan.set_condition(FAILURE_TARGET, True, *failure, now)
        plan.delete += count.active
        _release(plan, pods, count)
        if not _left(plan, count):
            plan.set_condition(FAILED, True, *failure, now)
            plan.events.append(Event("Warning", *failure))
    elif suspend:
        if plan.set_condition(SUSPENDED, True, "JobSuspended", "Job suspended", now):
            plan.events.append(Event("Normal", "Suspended", "Job suspended"))
        plan.drop(count.active)
    else:
        resumed = SUSPENDED in conditions
        if resumed:
            plan.set_condition(SUSPENDED, False, "JobResumed", "Job resumed", now)
            plan.events.append(Event("Normal", "Resumed", "Job resumed"))
        if resumed:
            status["startTime"] = format_time(now)
            if spec.get("activeDeadlineSeconds") is not None:
                deadline = float(spec["activeDeadlineSeconds"])
        plan.requeue_after = deadline
        _manage(job, pods, count, plan, now)
    _write_counts(plan, spec, count)
    return plan.plan(job)


def _after(job: Object, pods: Sequence[Object], conditions: Object, now: float) -> Plan:
    """Return what is left to do for a finished job: let its pods go, and itself when its time is up."""
    left = None
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is not None:
        ended = conditions.get(COMPLETE) or conditions[FAILED]
        left = parse_time(ended["lastTransitionTime"]) + int(ttl) - now
        if left <= 0:
            return Plan(actions=(Delete.of(JOBS, job, propagation="Foreground"),))
    # Its status stays as it is.
    tracked, active = [pod for pod in pods if is_tracked(pod)], [pod for pod in pods if is_active(pod)]
    return Draft(job["status"], untrack=tracked, delete=active, requeue_after=left).plan(job)


def _criteria_met(job: Object, count: Count, failure: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return reason and message of a job that has succeeded."""
    completions = job["spec"].get("completions")
    if completions is None:
        # A work queue: one success means that there is no work left; the other pods end by themselves.
        return REACHED if count.succeeded > 0 and not count.active else None
    if count.succeeded >= int(completions):
        return REACHED
    early = success(job, count.completed) if failure is None else ""
    return ("SuccessPolicy", early) if early else None


def _failure(
    job: Object, count: Count, before: Object, now: float
) -> tuple[tuple[str, str] | None, float | None]:
    """Return (reason, message) of a job that has failed, and the seconds left until its deadline."""
    spec = job["spec"]
    limit = int(spec.get("backoffLimit", 6))
    in_place = 0
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
        in_place = restarts(count.active)
    if count.failed > limit or in_place >= max(limit, 1):
        return ("BackoffLimitExceeded", "Job has reached the specified backoff limit"), None
    deadline = spec.get("activeDeadlineSeconds")
    # The time of one that was suspended starts anew when it is resumed.
    suspended = spec.get("suspend") or is_true(job, SUSPENDED)
    if deadline is None or not before.get("startTime") or suspended:
        return None, None
    left = parse_time(before["startTime"]) + int(deadline) - now
    if left <= 0:
        return ("DeadlineExceeded", "Job was active longer than specified deadline"), None
    return None, left


def _manage(job: Object, pods: Sequence[Object], count: Count, plan: Draft, now: float) -> None:
    """Bring the number of active pods to what is wanted."""
    spec = job["spec"]
    # Untracked already: dropped before a crash, only its deletion is missing.
    plan.delete += [pod for pod in count.active if not is_tracked(pod)]
    if spec.get("completionMode") == "Indexed":
        plan.drop([pod for pod in _misplaced(spec, count) if is_tracked(pod)])
    kept = [pod for pod in count.active if pod not in plan.delete]
    wanted = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is not None:
        lost = 0 if count.indexes is None else len(count.indexes.failed)
        wanted = min(wanted, int(completions) - count.succeeded - lost)
    elif count.succeeded:
        wanted = min(wanted, len(kept))
    if len(kept) > wanted:
        plan.drop(surplus(kept, len(kept) - wanted))
        return
    missing = wanted - len(kept)
    if spec.get("podReplacementPolicy") == "Failed":
        missing -= count.terminating
    if missing <= 0:
        return
    if count.indexes is not None:
        free = _free(spec, pods, kept, count.completed | count.indexes.failed)
        _replace_indexes(job, free, missing, count.indexes, plan, now)
        return
    delay = backoff(pods, now)
    if delay:
        plan.requeue_after = min(delay, plan.requeue_after or delay)
    elif spec.get("completionMode") == "Indexed":
        free = _free(spec, pods, kept, count.completed)
        plan.create += [(index, {}) for index, _ in zip(free, range(missing), strict=False)]
    else:
        plan.create += [(None, {})] * missing


def _free(
    spec: Object, pods: Sequence[Object], kept: Sequence[Object], done: AbstractSet[int]
) -> Iterator[int]:
    """Yield the indexes that lack a pod."""
    taken = done | {index_of(pod) for pod in kept}
    if spec.get("podReplacementPolicy") == "Failed":
        taken |= {index_of(pod) for pod in pods if not outcome(pod, only_finished=True)}
    yield from (index for index in range(int(spec["completions"])) if index not in taken)


def _replace_indexes(
    job: Object, free: Iterator[int], missing: int, per_index: Indexes, plan: Draft, now: float
) -> None:
    """Make pods of free indexes, each of which backs off by itself."""
    for index in free:
        if missing <= 0:
            return
        failed = per_index.last.get(index)
        delay = replaced_in(failed, now) if failed is not None else 0.0
        if delay:
            plan.requeue_after = min(delay, plan.requeue_after or delay)
            continue
        plan.create.append((index, next_counts(job, failed)))
        missing -= 1


def _misplaced(spec: Object, count: Count) -> list[Object]:
    """Return active pods whose index is done, out of range, or taken by another."""
    by_index: defaultdict[int | None, list[Object]] = defaultdict(list)
    for pod in count.active:
        by_index[index_of(pod)].append(pod)
    out: list[Object] = []
    for index, pods in by_index.items():
        done = count.completed if count.indexes is None else count.completed | count.indexes.failed
        if index is None or index >= int(spec["completions"]) or index in done:
            out += pods
        else:
            out += surplus(pods, len(pods) - 1)
    return out


def _release(plan: Draft, pods: Sequence[Object], count: Count) -> None:
    """Count the failed pods that waited for a replacement, which never comes now."""
    waiting = frozenset[str]() if count.indexes is None else count.indexes.waiting
    for pod in pods:
        uid = pod["metadata"]["uid"]
        if uid in waiting and is_tracked(pod):
            plan.untrack.append(pod)
            uncounted = plan.status["uncountedTerminatedPods"]
            uncounted["failed"] = [*uncounted.get("failed", ()), uid]


def _left(plan: Draft, count: Count) -> bool:
    """Return whether the final condition has to wait: for pods to go, or to be counted."""
    return bool(plan.delete or count.terminating or plan.status["uncountedTerminatedPods"] or plan.untrack)


def _write_counts(plan: Draft, spec: Object, count: Count) -> None:
    status = plan.status
    gone = {pod["metadata"]["uid"] for pod in plan.delete}
    active = [pod for pod in count.active if pod["metadata"]["uid"] not in gone]
    counts = {
        "active": len(active) + len(plan.create),
        "succeeded": status.get("succeeded"),
        "failed": status.get("failed"),
    }
    for name, value in counts.items():
        if value:
            status[name] = value
        else:
            status.pop(name, None)
    status["ready"] = sum(is_ready(pod) for pod in active)
    status["terminating"] = count.terminating + len(gone)
    if spec.get("completionMode") == "Indexed":
        if count.completed:
            status["completedIndexes"] = format_indexes(count.completed)
        else:
            status.pop("completedIndexes", None)
    if count.indexes is not None:
        status["failedIndexes"] = format_indexes(count.indexes.failed)
