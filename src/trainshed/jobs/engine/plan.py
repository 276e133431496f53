"""What `decide` answers: actions in order, the status to write, and what to say once that is done.

How to execute a plan
    1. Run `actions` in order; neighbours that create may run together, and neighbours that delete. After each, emit
       `action.succeeded()`; on an error emit `action.failed(error)` and stop. A status that goes with deletions
       relies on them, so it is not written then. One that goes with creations says what was observed: it is written
       although an object is refused (quota, Pod Security, a taken name), and the job has a beginning to count from.
    2. If `status` is not None, write it with one update of the status subresource.
    3. Only when that write landed (or none was needed): emit `events`, count `counters`.
    4. Reconcile again after `requeue_after` seconds, or when the job or a child changes.

Answers that are no errors
    Create → AlreadyExists, and the object there has our controller uid and is not terminating: the view was
    stale. Any other AlreadyExists (a leftover of an older job of the same name) is an error: retry later.
    Delete → NotFound, or Conflict because the uid differs: someone was faster.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from trainshed.kube.meta import plan

Counter: TypeAlias = Literal["created", "deleted", "successful", "failed", "restarted"]
"""Which `training_operator_jobs_<counter>_total` goes up by one."""


class Plan(plan.Plan, frozen=True, kw_only=True):
    """What to do about one observation of a job: `requeue_after` is at least 0."""

    counters: tuple[Counter, ...] = ()
