"""Suspending and resuming: a suspended job has no pods; a resumed one starts as if new.

A job is resumed only when no pod of its previous run is left. A pod that is still going would otherwise hold the
slot of its successor, and count as failed: under restart policy Never that would fail the resumed job.
"""

from __future__ import annotations

from trainshed.jobs.engine import cleanup
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children
from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.status import Draft
from trainshed.kube.meta.plan import Action


def suspend(job: Job, children: Children, draft: Draft) -> list[Action]:
    """Return the deletion of all pods, and say in the draft that the job is suspended."""
    message = f"{job.kind.name} {job.name} is suspended."
    draft.clear_active()
    if draft.is_true(c.RUNNING):
        draft.set(c.RUNNING, message, status="False", outcome=c.SUSPENDED)
    if not draft.is_true(c.SUSPENDED):
        draft.set(c.SUSPENDED, message)
        draft.say("Normal", c.SUSPENDED, message)
    return cleanup.delete_everything(children)


def is_held_by_previous_run(children: Children, draft: Draft) -> bool:
    """Return whether a job that is to be resumed still has pods."""
    return draft.is_true(c.SUSPENDED) and bool(children.pods)


def resume(job: Job, draft: Draft) -> None:
    """Say in the draft that the job runs again, from now."""
    message = f"{job.kind.name} {job.name} is resumed."
    draft.set(c.SUSPENDED, message, status="False", outcome=c.RESUMED)
    draft.start()
    draft.say("Normal", c.RESUMED, message)
