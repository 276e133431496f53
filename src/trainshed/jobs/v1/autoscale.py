"""The HorizontalPodAutoscaler of an elastic job: there while the job may run, gone while it is suspended."""

from __future__ import annotations

from typing import Any

from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.plan import Action, ApplyHPA, DeleteHPA
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, name_of, section, uid_of
from trainshed.kube.meta.quantity import parse


def converge(job: Job, wanted: Object | None, live: Object | None) -> list[Action]:
    """Return what makes the live autoscaler the wanted one; one that is not ours is left alone."""
    if live is not None and (controller_uid(live) != job.uid or is_terminating(live)):
        return []
    if wanted is None:
        return remove(job, live)
    if live is not None and _says(section(live, "spec"), wanted["spec"]):
        return []
    return [ApplyHPA(wanted)]


def remove(job: Job, live: Object | None) -> list[Action]:
    """Return the deletion of the job's autoscaler, if it has one."""
    if live is None or controller_uid(live) != job.uid or is_terminating(live):
        return []
    return [DeleteHPA(name_of(live), job.namespace, uid_of(live))]


def _says(live: Any, wanted: Any) -> bool:
    """Say whether `live` holds all of `wanted`: a server adds defaults and rewrites quantities."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_says(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_says, live, wanted))
    return bool(live == wanted) or _is_same_quantity(live, wanted)


def _is_same_quantity(live: Any, wanted: Any) -> bool:
    try:
        return isinstance(live, str) and parse(live) == parse(wanted)
    except (TypeError, ValueError):
        return False
