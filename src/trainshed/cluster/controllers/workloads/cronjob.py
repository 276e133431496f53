"""What a CronJob needs next: the Job that is due, old ones forgotten, and its status. Pure.

Sources: batch/v1 CronJobSpec and CronJobStatus; "CronJob" in the Kubernetes documentation.

A Job is called after the minute that it was due in, so one that is made twice is refused; that it was made is noted
once it is seen. Of the times that were missed only the last counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from trainshed.kube.meta.cron import Schedule
from trainshed.kube.meta.objects import Object, copy_tree, metadata_of, name_of, section, spec_of, status_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Action, Create, Delete, Event, Plan, Told
from trainshed.kube.meta.resources import JOBS
from trainshed.kube.meta.times import format_time, parse_time

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY_MISSED = 100
_MADE = Told(
    (Event("Normal", "SuccessfulCreate", "Created job {name}"),),
    Event("Warning", "FailedCreate", "Error creating job: "),
)
_GONE = Told(
    (Event("Normal", "SuccessfulDelete", "Deleted job {name}"),),
    Event("Warning", "FailedDelete", "Deleted job: "),
)


class Observed(msgspec.Struct, frozen=True):
    """One CronJob that is not being deleted, the Jobs that it controls, and the time in seconds since the epoch."""

    cron_job: Object
    jobs: Sequence[Object]
    now: float


def decide(observed: Observed) -> Plan:
    """Return the next step."""
    cron_job, now = observed.cron_job, observed.now
    spec = cron_job["spec"]
    status = _status(observed)
    forgotten = _forgotten(spec, observed.jobs)
    events = _endings(observed, status, {deletion.uid for deletion in forgotten})
    actions: list[Action] = [*forgotten]
    if spec.get("suspend"):
        return Plan(actions=tuple(actions), status=status, events=tuple(events))
    given = spec["schedule"]
    try:
        schedule = Schedule(given, spec.get("timeZone"))
    except ValueError as error:
        text = f'unparseable schedule: "{given}" : {error}'
        events.append(Event("Warning", "UnparseableSchedule", text))
        return Plan(actions=tuple(actions), status=status, events=tuple(events))
    if schedule.never:
        text = f"invalid schedule: {given} : time difference between two schedules is less than 1 second"
        events.append(Event("Warning", "InvalidSchedule", text))
        return Plan(actions=tuple(actions), status=status, events=tuple(events))
    earliest = _earliest(cron_job, status, now)
    due = schedule.latest(earliest, now)
    if due is not None:
        if _missed(schedule, earliest, now) > _MANY_MISSED:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            events.append(Event("Warning", "TooManyMissedTimes", text))
        running = _running(observed)
        policy = spec.get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and running:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            events.append(Event("Normal", "JobAlreadyActive", text))
        else:
            if policy == "Replace":
                actions += [_deletion(job) for job in running]
                status.pop("active", None)
            made = _job(cron_job, due, schedule.stamp(due))
            actions.append(Create(resource=JOBS, given=made, told=_MADE))
    following = schedule.after(now)
    return Plan(
        actions=tuple(actions),
        status=status,
        events=tuple(events),
        requeue_after=None if following is None else max(following - now, 0.0),
    )


def finished(job: Object) -> str | None:
    """Return `Complete` or `Failed` for a Job that has ended."""
    for condition in status_of(job).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


def _running(observed: Observed) -> list[Object]:
    """Return the Jobs that were made because they were due and have not ended: not those that somebody else made."""
    known = {reference["uid"] for reference in status_of(observed.cron_job).get("active") or ()}
    return [
        job
        for job in observed.jobs
        if finished(job) is None and (_scheduled(job) or job["metadata"]["uid"] in known)
    ]


def _deletion(job: Object) -> Delete:
    return msgspec.structs.replace(Delete.of(JOBS, job, propagation="Background"), told=_GONE)


def _earliest(cron_job: Object, status: Object, now: float) -> float:
    """Return the time after which a Job is still to be made."""
    earliest = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, now - int(deadline))
    return earliest


def _missed(schedule: Schedule, earliest: float, now: float) -> int:
    """Return about how many times there were in (earliest, now]: counted by the first two, as upstream."""
    first = schedule.after(earliest)
    second = None if first is None else schedule.after(first)
    if first is None or second is None or now < first:
        return 0
    return 1 + int((now - first) // max(second - first, 1.0))


def _status(observed: Observed) -> Object:
    """Return the status: which Jobs run, when the last one was due, and when one last succeeded."""
    status = dict(status_of(observed.cron_job))
    running = _running(observed)
    status["active"] = [_reference(job) for job in sorted(running, key=name_of)]
    if not running:
        del status["active"]
    due = [parse_time(text) for job in observed.jobs if (text := _scheduled(job))]
    ended = [
        parse_time(status_of(job)["completionTime"])
        for job in observed.jobs
        if finished(job) == "Complete" and status_of(job).get("completionTime")
    ]
    for field, times in (("lastScheduleTime", due), ("lastSuccessfulTime", ended)):
        if before := status.get(field):
            times.append(parse_time(before))
        if times:
            status[field] = format_time(max(times))
    return status


def _endings(observed: Observed, status: Object, forgotten: Collection[str]) -> list[Event]:
    """Return the events of Jobs that ran when the status was written last and do no more, and of others' Jobs.

    Of one that is forgotten at once (its uid is in `forgotten`) only the deletion is told.
    """
    left = {reference["uid"] for reference in status.get("active") or ()}
    jobs = {job["metadata"]["uid"]: job for job in observed.jobs}
    out = []
    for reference in status_of(observed.cron_job).get("active") or ():
        if reference["uid"] in left or reference["uid"] in forgotten:
            continue
        job = jobs.get(reference["uid"])
        if job is None:
            text = f"Active job went missing: {reference['name']}"
            out.append(Event("Normal", "MissingJob", text))
        else:
            text = f"Saw completed job: {name_of(job)}, condition: {finished(job)}"
            out.append(Event("Normal", "SawCompletedJob", text))
    for job in observed.jobs:
        if finished(job) is None and job["metadata"]["uid"] not in left:
            text = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
            out.append(Event("Warning", "UnexpectedJob", text))
    return out


def _forgotten(spec: Object, jobs: Sequence[Object]) -> list[Delete]:
    """Return the deletions of ended Jobs beyond the history limits, oldest first."""
    out: list[Delete] = []
    for end, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        ended = [job for job in jobs if finished(job) == end]
        ended.sort(key=lambda job: (status_of(job).get("startTime") or "", name_of(job)))
        limit = spec.get(field, default)
        surplus = ended[: max(len(ended) - int(limit), 0)]
        out += [_deletion(job) for job in surplus]
    return out


def _scheduled(job: Object) -> str:
    return str(section(metadata_of(job), "annotations").get(SCHEDULED, ""))


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def _job(cron_job: Object, due: float, stamp: str) -> Object:
    template = copy_tree(section(cron_job, "spec", "jobTemplate"))
    given = metadata_of(template)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{name_of(cron_job)}-{int(due // 60)}",
            "namespace": cron_job["metadata"]["namespace"],
            "labels": section(given, "labels"),
            "annotations": {**section(given, "annotations"), SCHEDULED: stamp},
            "ownerReferences": [controller_reference(cron_job)],
        },
        "spec": spec_of(template),
    }
