"""CronJobs: a schedule and the template of a Job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import (
    NONE,
    UNSET,
    Columns,
    age,
    containers,
    define,
    label_selector,
    since,
)
from trainshed.kube.builtin.parts.jobspec import job_spec_causes, job_warnings
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.workload import template_defaults
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of
from trainshed.kube.meta.resources import CRONJOBS

_NAME_MAX = 52


def _defaults(obj: Object) -> None:
    """Fill in a CronJob."""
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        # Upstream defaults only the pods of a CronJob's template; the rest is the Job's when it is made.
        template_defaults(setdefault(template, "spec", {}))
    obj.setdefault("status", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a CronJob."""
    if subresource == "status":
        return
    name = name_of(obj)
    if len(name) > _NAME_MAX:
        yield causes.invalid("metadata.name", name, f"must be no more than {_NAME_MAX} characters")
    spec = spec_of(obj)
    schedule = spec.get("schedule")
    if not schedule:
        yield causes.required("spec.schedule")
    else:
        yield from _schedule(schedule)
    if (named := spec.get("timeZone")) is not None:
        yield from _time_zone(named)
    yield from one_of(spec, "spec", "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    yield from non_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    yield from job_spec_causes(section(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")


def _schedule(schedule: str) -> Iterator[Cause]:
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield causes.invalid("spec.schedule", schedule, text)
        return
    from trainshed.kube.meta import cron  # calendars and time zones: few clusters have CronJobs

    try:
        cron.Schedule(schedule)
    except ValueError as error:
        yield causes.invalid("spec.schedule", schedule, str(error))


def _time_zone(name: str) -> Iterator[Cause]:
    from trainshed.kube.meta import cron

    try:
        cron.zone(name)
    except ValueError as error:
        yield causes.invalid("spec.timeZone", name, str(error))


def _row(obj: Object, now: float) -> list[Any]:
    job = section(obj, "spec", "jobTemplate", "spec")
    suspend = spec_of(obj).get("suspend")
    return [
        name_of(obj),
        spec_of(obj).get("schedule", ""),
        spec_of(obj).get("timeZone") or NONE,
        UNSET if suspend is None else str(bool(suspend)),
        len(status_of(obj).get("active") or ()),
        since(status_of(obj).get("lastScheduleTime"), now, NONE),
        age(obj, now),
        *containers(section(job, "template").get("spec")),
        label_selector(job.get("selector")),
    ]


KIND = Builtin(
    info=row(
        CRONJOBS,
        "cj",
        categories=ALL,
        subresources=STATUS,
        generation=True,
    ),
    does="makes a Job each time one is due",
    defaults=_defaults,
    check=_check,
    warns=job_warnings("spec", "jobTemplate", "spec"),
    columns=Columns(
        define(
            "Name, Schedule, Timezone, Suspend?, Active#, Last Schedule, Age, Containers*, Images*, Selector*"
        ),
        _row,
    ),
    viewed=("", "status"),
    edited=("",),
)
