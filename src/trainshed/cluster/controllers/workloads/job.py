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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads.job_pods import (
    TRACKING,
    backoff,
    format_indexes,
    index_of,
    is_tracked,
    new_pod,
    outcome,
    parse_indexes,
    restarts,
)
from trainshed.cluster.controllers.workloads.job_policies import (
    Indexes,
    fail_job,
    given_up,
    indexes,
    judged,
    next_counts,
    replaced_in,
    success,
)
from trainshed.cluster.controllers.workloads.podactions import creation, deletion
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, section, status_of
from trainshed.kube.meta.ownership import without_finalizer
from trainshed.kube.meta.plan import Delete, Event, Patch, Plan
from trainshed.kube.meta.pods import is_active, is_ready, phase, surplus
from trainshed.kube.meta.resources import JOBS, PODS
from trainshed.kube.meta.times import format_time, parse_time

REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"


BUILT_IN = "kubernetes.io/job-controller"
"""`spec.managedBy` of the jobs that are ours, like none at all."""


class Observed(msgspec.Struct, frozen=True):
    """One job, None when it is gone, and the pods of its name, those of an earlier job of that name among them."""

    job: Object | None
    pods: Sequence[Object]
    now: float
    """Seconds since the epoch."""


class _Draft(msgspec.Struct):
    """A plan in the making."""

    status: Object
    untrack: list[Object] = msgspec.field(default_factory=list)
    """Pods that lose the tracking finalizer: counted, or not to be counted."""
    delete: list[Object] = msgspec.field(default_factory=list)
    create: list[tuple[int | None, Mapping[str, str]]] = msgspec.field(default_factory=list)
    """One entry per new pod: its completion index, None for a NonIndexed job, and its annotations."""
    events: list[Event] = msgspec.field(default_factory=list)
    requeue_after: float | None = None

    def plan(self, job: Object) -> Plan:
        return Plan(
            actions=(
                *_untracking(self.untrack),
                *(deletion(pod) for pod in self.delete),
                *(creation(new_pod(job, index, notes)) for index, notes in self.create),
            ),
            status=self.status,
            events=tuple(self.events),
            requeue_after=self.requeue_after,
        )


class _Count(msgspec.Struct):
    """Pods by what they count for."""

    active: list[Object]
    terminating: int
    succeeded: int
    failed: int
    completed: set[int]
    indexes: Indexes | None
    """Of a job with `backoffLimitPerIndex`."""


def decide(observed: Observed) -> Plan:
    """Return the next step of a job."""
    job, now = observed.job, observed.now
    if job is not None and job["spec"].get("managedBy", BUILT_IN) != BUILT_IN:
        return Plan()
    if job is None or is_terminating(job):
        return Plan(actions=_untracking(observed.pods))
    uid = job["metadata"]["uid"]
    pods = [pod for pod in observed.pods if controller_uid(pod) == uid]
    others = _untracking([pod for pod in observed.pods if controller_uid(pod) != uid])
    plan = _decide(job, pods, now)
    return msgspec.structs.replace(plan, actions=(*others, *plan.actions))


def _untracking(pods: Iterable[Object]) -> tuple[Patch, ...]:
    return tuple(
        Patch(resource=PODS, object=pod, patch=without_finalizer(pod, TRACKING))
        for pod in pods
        if is_tracked(pod)
    )


def _decide(job: Object, pods: Sequence[Object], now: float) -> Plan:
    """Return the next step of a job of ours that is not being deleted, with all the pods that it controls."""
    before: Object = status_of(job)
    conditions = {c["type"]: c for c in before.get("conditions") or () if c["status"] == "True"}
    if COMPLETE in conditions or FAILED in conditions:
        return _after(job, pods, conditions, now)
    spec = job["spec"]
    plan = _Draft(dict(before))
    status = plan.status
    count = _count(job, pods, plan)
    failure, deadline = _failure(job, count, before, now)
    failure = fail_job(job, pods) or failure
    if failure is None and count.indexes is not None:
        failure = given_up(job, count.indexes.failed, count.completed)
    met = _criteria_met(job, count, failure)
    suspend = bool(spec.get("suspend"))
    if FAILURE_TARGET in conditions:
        target = conditions[FAILURE_TARGET]
        failure = (target["reason"], target["message"])
    if CRITERIA_MET in conditions or (met is not None and FAILURE_TARGET not in conditions):
        held = conditions.get(CRITERIA_MET)
        reached: tuple[str, str] = (held["reason"], held["message"]) if held else met or REACHED
        _release(plan, pods, count)
        _set(plan, CRITERIA_MET, True, *reached, now)
        _drop(plan, count.active)
        if not _left(plan, count):
            _set(plan, COMPLETE, True, *reached, now)
            status["completionTime"] = format_time(now)
            plan.events.append(Event("Normal", "Completed", "Job completed"))
    elif failure is not None:
        _set(plan, FAILURE_TARGET, True, *failure, now)
        plan.delete += count.active
        _release(plan, pods, count)
        if not _left(plan, count):
            _set(plan, FAILED, True, *failure, now)
            plan.events.append(Event("Warning", *failure))
    elif suspend:
        if _set(plan, SUSPENDED, True, "JobSuspended", "Job suspended", now):
            plan.events.append(Event("Normal", "Suspended", "Job suspended"))
        status.pop("startTime", None)
        _drop(plan, count.active)
    else:
        if SUSPENDED in conditions:
            _set(plan, SUSPENDED, False, "JobResumed", "Job resumed", now)
            plan.events.append(Event("Normal", "Resumed", "Job resumed"))
        if not status.get("startTime"):
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
    return _Draft(job["status"], untrack=tracked, delete=active, requeue_after=left).plan(job)


def _count(job: Object, pods: Sequence[Object], plan: _Draft) -> _Count:
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
        over = [pod for pod in pods if outcome(pod, only_finished=only_finished) == "failed"]
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
    return _Count(
        active=[pod for pod in pods if is_active(pod)],
        terminating=len(ending),
        succeeded=totals["succeeded"] + len(waiting["succeeded"]),
        failed=totals["failed"] + len(waiting["failed"]),
        completed=completed,
        indexes=per_index,
    )


def _is_over(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed") or not pod["metadata"].get("deletionGracePeriodSeconds", 1)


def _criteria_met(job: Object, count: _Count, failure: tuple[str, str] | None) -> tuple[str, str] | None:
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
    job: Object, count: _Count, before: Object, now: float
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
    if deadline is None or not before.get("startTime") or spec.get("suspend"):
        return None, None
    left = parse_time(before["startTime"]) + int(deadline) - now
    if left <= 0:
        return ("DeadlineExceeded", "Job was active longer than specified deadline"), None
    return None, left


def _manage(job: Object, pods: Sequence[Object], count: _Count, plan: _Draft, now: float) -> None:
    """Bring the number of active pods to what is wanted."""
    spec = job["spec"]
    # Untracked already: dropped before a crash, only its deletion is missing.
    plan.delete += [pod for pod in count.active if not is_tracked(pod)]
    if spec.get("completionMode") == "Indexed":
        _drop(plan, [pod for pod in _misplaced(spec, count) if is_tracked(pod)])
    kept = [pod for pod in count.active if pod not in plan.delete]
    wanted = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is not None:
        lost = 0 if count.indexes is None else len(count.indexes.failed)
        wanted = min(wanted, int(completions) - count.succeeded - lost)
    elif count.succeeded:
        wanted = min(wanted, len(kept))
    if len(kept) > wanted:
        _drop(plan, surplus(kept, len(kept) - wanted))
        return
    missing = wanted - len(kept)
    if spec.get("podReplacementPolicy") == "Failed":
        missing -= count.terminating
    if missing <= 0:
        return
    if count.indexes is not None:
        _replace_indexes(job, pods, kept, missing, count.indexes, count.completed, plan, now)
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
    job: Object,
    pods: Sequence[Object],
    kept: Sequence[Object],
    missing: int,
    per_index: Indexes,
    completed: AbstractSet[int],
    plan: _Draft,
    now: float,
) -> None:
    """Make pods of indexes, each of which backs off by itself."""
    for index in _free(job["spec"], pods, kept, completed | per_index.failed):
        if missing <= 0:
            return
        failed = per_index.last.get(index)
        delay = replaced_in(failed, now) if failed is not None else 0.0
        if delay:
            plan.requeue_after = min(delay, plan.requeue_after or delay)
            continue
        plan.create.append((index, next_counts(job, failed)))
        missing -= 1


def _misplaced(spec: Object, count: _Count) -> list[Object]:
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


def _drop(plan: _Draft, pods: Sequence[Object]) -> None:
    """End pods that are not needed; that is no failure of theirs, so they are not counted."""
    plan.untrack += [pod for pod in pods if is_tracked(pod)]
    plan.delete += pods


def _release(plan: _Draft, pods: Sequence[Object], count: _Count) -> None:
    """Count the failed pods that waited for a replacement, which never comes now."""
    waiting = frozenset[str]() if count.indexes is None else count.indexes.waiting
    for pod in pods:
        uid = pod["metadata"]["uid"]
        if uid in waiting and is_tracked(pod):
            plan.untrack.append(pod)
            uncounted = plan.status["uncountedTerminatedPods"]
            uncounted["failed"] = [*uncounted.get("failed", ()), uid]


def _left(plan: _Draft, count: _Count) -> bool:
    """Return whether the final condition has to wait: for pods to go, or to be counted."""
    return bool(plan.delete or count.terminating or plan.status["uncountedTerminatedPods"] or plan.untrack)


def _write_counts(plan: _Draft, spec: Object, count: _Count) -> None:
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


def _set(plan: _Draft, name: str, true: bool, reason: str, message: str, now: float) -> bool:
    """Add or change a condition; return whether that changed anything."""
    status = "True" if true else "False"
    conditions: list[Object] = list(plan.status.get("conditions") or ())
    for condition in conditions:
        if condition["type"] == name and condition["status"] == status:
            return False
    stamp = format_time(now)
    new: dict[str, Any] = {
        "type": name,
        "status": status,
        "lastProbeTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }
    plan.status["conditions"] = [*(c for c in conditions if c["type"] != name), new]
    return True
