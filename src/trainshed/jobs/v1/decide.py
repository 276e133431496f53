"""`decide(observed) -> Plan`: the job controller's judgement, in the order in which it is made.

Guarantees
    Pure and total: the same observation gives the same plan, and no stored document makes it raise.
    Converges: once a plan is executed and its effects are seen, the next plan is empty, apart from its timer.
    Final: a job that succeeded or failed stays so, and none of its pods is created again.
Assumptions
    The view may lack objects that exist: their creation is repeated under the same name, which is a harmless
    conflict. It may show objects that are gone: deletes carry the uid of what was seen.
    The job is at least as new as the last status that this operator was told is written.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainshed.api.v1.validation import text
from trainshed.jobs.engine import cleanup, limits, suspend
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, Slot, classify
from trainshed.jobs.engine.events import abnormal_pod_events, exit_events
from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.plan import Action, DeletePod, DeleteService, Event, Plan
from trainshed.jobs.engine.status import Draft, tally
from trainshed.jobs.v1 import autoscale, restart
from trainshed.jobs.v1.frameworks import FRAMEWORKS, Framework
from trainshed.jobs.v1.frameworks.framework import Judgement
from trainshed.jobs.v1.pods import create_pod
from trainshed.jobs.v1.services import create_service
from trainshed.kube.meta.objects import is_terminating


def decide(observed: Observed) -> Plan:
    """Return what to do about the job as observed."""
    kind = str(observed.job.get("kind"))
    framework = FRAMEWORKS[kind]
    try:
        job, problems = framework.read(observed.job)
    except msgspec.ValidationError as error:
        return Plan(events=(_invalid(kind, str(error)),))

    # Not ours to act on.
    if job.is_terminating or job.is_managed_elsewhere:
        return Plan()

    draft = Draft.of(job, observed.now)
    draft.mark_created()
    children = classify(job, observed.pods, observed.services)

    # Over: clean up, keep for its time to live, delete.
    if draft.is_true(c.SUCCEEDED) or draft.is_true(c.FAILED):
        return _after_finish(job, children, draft)

    # Must not run: no pods, no autoscaler. A resumed job waits until that is so.
    if job.is_suspended:
        actions = [*autoscale.remove(job, observed.hpa), *suspend.suspend(job, children, draft)]
        return draft.plan(actions)
    if suspend.is_held_by_previous_run(children, draft):
        return draft.plan(cleanup.delete_everything(job, children))

    # Cannot run: the webhook refuses such a job, so this one was stored while there was no webhook.
    if problems:
        draft.events.append(_invalid(kind, text(problems)))
        return draft.plan()

    # Resumed: say so now, create pods once that is written. Else an operator that is stopped in between would
    # take them for pods of the previous run.
    if draft.is_true(c.SUSPENDED):
        suspend.resume(job, draft)
        return draft.plan(requeue_after=limits.deadline_left(job, draft))

    draft.events.extend(abnormal_pod_events(children))

    # Had enough: say so now, delete the pods once that is written.
    reached = limits.exceeded(job, children, draft)
    if reached is not None:
        draft.fail(reached)
        return draft.plan()

    # Runs: count, judge, and converge the children unless that ended the job.
    actions = autoscale.converge(job, framework.autoscaler(job), observed.hpa)
    actions += _run(job, framework, children, draft, observed.options)
    return draft.plan(actions, None if _is_over(draft) else limits.deadline_left(job, draft))


def _after_finish(job: Job, children: Children, draft: Draft) -> Plan:
    """Return the cleanup of a job that has succeeded or failed."""
    if draft.is_true(c.SUCCEEDED):
        draft.fold_active_into_succeeded()
    if limits.ended(job, draft):
        actions = cleanup.delete_everything(job, children)
    else:
        actions = cleanup.delete_after_finish(job, children)
    left = cleanup.time_to_live(job, draft)
    if left == 0 and not draft.changed():
        return Plan(actions=(cleanup.delete_job(job),))
    return draft.plan(actions, left)


def _run(
    job: Job, framework: Framework, children: Children, draft: Draft, options: OperatorOptions
) -> list[Action]:
    """Return the changes of pods and services of a job that runs, and write its counts and conditions."""
    draft.events.extend(exit_events(job, children))
    tallies = {replica.type: tally(children.of(replica)) for replica in job.replicas}
    judgement = framework.judge(job, tallies)
    draft.count(tallies)
    if draft.start_time is None:
        draft.start()

    # Success first: what fails beside it no longer matters, and nothing is started or restarted for it.
    if judgement.succeeded is not None:
        draft.succeed(judgement.succeeded)
        return []
    permanent = restart.permanently_failed(job, children)
    if permanent is not None:
        draft.fail(permanent, "Warning")
        return []
    for failing in judgement.failing:
        if not failing.restarts:
            _set_running(judgement, draft)
            draft.fail(failing.message)
            return []

    replaced = restart.replaceable(job, children)
    if replaced or judgement.failing:
        _set_restarting(job, judgement, replaced, draft)
    else:
        _set_running(judgement, draft)
    actions: list[Action] = [
        DeletePod.of(f.pod, job.namespace) for f in replaced if not is_terminating(f.pod)
    ]
    for replica in job.replicas:
        slots = list(children.of(replica))
        actions += _converge_pods(job, framework, slots, options)
        actions += _converge_services(job, slots)
    return actions


def _converge_pods(
    job: Job, framework: Framework, slots: list[Slot], options: OperatorOptions
) -> Iterator[Action]:
    """Yield what gives every wanted slot of one type a pod, and the others none."""
    for slot in slots:
        if slot.wanted and not slot.pods:
            yield create_pod(job, framework, slot.replica, slot.index, options)
        elif not slot.wanted and slot.pod is not None and not is_terminating(slot.pod):
            yield DeletePod.of(slot.pod, job.namespace)


def _converge_services(job: Job, slots: list[Slot]) -> Iterator[Action]:
    """Yield what gives every wanted slot of one type a service, and the others none."""
    for slot in slots:
        if slot.wanted and not slot.services:
            yield create_service(job, slot.replica, slot.index)
        elif not slot.wanted and slot.service is not None and not is_terminating(slot.service):
            yield DeleteService.of(slot.service, job.namespace)


def _set_running(judgement: Judgement, draft: Draft) -> None:
    if judgement.running is not None:
        draft.set(c.RUNNING, judgement.running)


def _set_restarting(job: Job, judgement: Judgement, replaced: list[restart.Failure], draft: Draft) -> None:
    """Say that pods are being replaced, in one condition however often it is seen, and in events once each.

    Running is not set beside it, even where the master runs: the two replace each other, and a status that
    flips with every pass would never settle.
    """
    starting = [failure for failure in replaced if not is_terminating(failure.pod)]
    changed = False
    for type_ in dict.fromkeys(failure.replica.type for failure in starting):
        message = restart.restarting_message(job, type_)
        changed |= draft.set(c.RESTARTING, message)
        draft.say("Warning", c.RESTARTING, message)
    for failing in judgement.failing:
        changed |= draft.set(c.RESTARTING, failing.message)
        if starting or changed:
            draft.say("Warning", c.RESTARTING, failing.message)
    if starting or changed:
        draft.counters.append("restarted")


def _is_over(draft: Draft) -> bool:
    return draft.is_true(c.SUCCEEDED) or draft.is_true(c.FAILED)


def _invalid(kind: str, why: str) -> Event:
    reason = c.reason(kind, c.FAILED_VALIDATION)
    return Event("Warning", reason, f"{kind} failed validation because {why}")
