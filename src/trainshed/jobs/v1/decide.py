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

from collections.abc import Iterator, Sequence

import msgspec

from trainshed.api.verdict import text
from trainshed.jobs.engine import cleanup, limits, owned, suspend
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, Slot, classify
from trainshed.jobs.engine.events import abnormal_pod_events
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.owned import POD_EVENTS, SERVICE_EVENTS
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.engine.status import Draft
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Framework, Judgement, Phase, Seen
from trainshed.jobs.v1.job import Job
from trainshed.jobs.v1.phases import phases
from trainshed.jobs.v1.pods import Conflict, WritesPod
from trainshed.jobs.v1.read import read
from trainshed.jobs.v1.restart import Failure, failing_message, restarting_message
from trainshed.jobs.v1.services import service
from trainshed.kube.meta.objects import is_terminating
from trainshed.kube.meta.plan import Action, Create, Delete, Told
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.resources import PODS, SERVICES


def decide(observed: Observed) -> Plan:
    """Return what to do about the job as observed."""
    kind = str(observed.job.get("kind"))
    framework, parts = FRAMEWORKS[kind], phases(kind, observed.options)
    try:
        job, problems = read(framework.kind, observed.job)
    except msgspec.ValidationError as error:
        return Plan(events=(framework.invalid(str(error)),))

    # Not ours to act on.
    if job.is_terminating or job.is_managed_elsewhere:
        return Plan()

    draft = Draft.of(job, observed.now)
    draft.mark_created()
    children = classify(job, observed.owned.get(PODS, ()), observed.owned.get(SERVICES, ()))
    extras = [row for part in parts for row in part.owns]

    # Over: clean up, keep for its time to live, delete.
    if draft.is_true(c.SUCCEEDED) or draft.is_true(c.FAILED):
        going = [row for row in extras if not row.after_finish]
        return _after_finish(job, children, draft, list(owned.remove(job, going, observed.owned)))

    # Must not run: no pods, nothing that is only for running. A resumed job waits until that is so.
    if job.is_suspended:
        going = [row for row in extras if not row.while_suspended]
        actions = [*owned.remove(job, going, observed.owned), *suspend.suspend(job, children, draft)]
        return draft.plan(actions)
    if suspend.is_held_by_previous_run(children, draft):
        return draft.plan(cleanup.delete_everything(children))

    # Cannot start: the webhook refuses such a job, so this one was stored past it (it is not asked about `scale`).
    # One that runs is looked after to its end; only nothing is started for it any more.
    if problems:
        draft.events.append(framework.invalid(text(problems)))
        if draft.is_true(c.SUSPENDED) or (draft.start_time is None and not children.pods):
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

    # Runs: converge what is owned, count, judge, and converge the replicas unless that ended the job.
    tallies = framework.tallies(job, children)
    seen = Seen(children=children, tallies=tallies, conditions=draft.conditions, owned=observed.owned)
    taking = [part for part in parts if part.takes_part(job, seen)]
    run = _Run(job, framework, taking, seen, observed, may_start=not problems)
    try:
        actions = run.plan(draft)
    except Conflict as error:
        return Plan(events=(framework.invalid(str(error)),))
    return draft.plan(actions, None if _is_over(draft) else limits.deadline_left(job, draft))


def _after_finish(job: Job, children: Children, draft: Draft, actions: list[Action]) -> Plan:
    """Return the cleanup of a job that has succeeded or failed, after the deletion of what is only for running."""
    if draft.is_true(c.SUCCEEDED):
        draft.fold_active_into_succeeded()
    if limits.ended(job, draft):
        actions += cleanup.delete_everything(children)
    else:
        actions += cleanup.delete_after_finish(job, children)
    left = cleanup.time_to_live(job, draft)
    if left == 0 and not draft.changed():
        return Plan(actions=(cleanup.delete_job(job, job.kind.deletion_word),))
    return draft.plan(actions, left)


class _Run(msgspec.Struct, frozen=True):
    """One pass over a job that runs. One that may not start anything keeps and loses children, and gains none."""

    job: Job
    framework: Framework
    phases: Sequence[Phase]
    seen: Seen
    observed: Observed
    may_start: bool

    def plan(self, draft: Draft) -> list[Action]:
        """Return the changes of all children, and write the counts and conditions.

        Raises:
            Conflict: two phases set the same place of a pod.
        """
        job, children, options = self.job, self.seen.children, self.observed.options
        extras = self._extras()
        draft.events.extend(extras.events)
        for phase in self.phases:
            draft.events.extend(phase.events(job, self.seen))
        held = any(phase.holds(job, self.seen, options) for phase in self.phases)
        if held and not children.pods:
            # It has not begun: nothing to count, and no deadline runs.
            return list(extras.actions)
        judgement = self.framework.judge(job, self.seen)
        draft.count(self.seen.tallies, job.selector if job.kind.reports_selector else None)
        if draft.start_time is None:
            draft.start()
        actions = list(extras.actions)
        failures = self._failures()
        if _ended(job, judgement, failures, draft):
            return actions

        replaced = [failure for failure in failures if failure.restart == "replace"]
        if replaced or judgement.failing:
            _set_restarting(job, judgement, replaced, draft)
        else:
            _set_running(judgement, draft)
        actions += [Delete.of(PODS, f.pod, POD_EVENTS) for f in replaced if not is_terminating(f.pod)]
        if extras.waits or held:
            return actions
        for replica in job.replicas:
            slots = list(children.of(replica))
            actions += self._converge_pods(slots)
            actions += self._converge_services(slots)
        return actions

    def _extras(self) -> owned.Convergence:
        """Return what converges the objects that the phases want."""
        if not self.may_start:
            return owned.Convergence()
        rows: list[owned.Owns] = []
        wanted: list[owned.Owned] = []
        for phase in self.phases:
            wants = phase.owned(self.job, self.seen, self.observed.options)
            if wants is not None:
                rows += phase.owns
                wanted += wants
        if not rows:
            return owned.Convergence()
        return owned.converge(self.job, rows, wanted, self.observed.owned)

    def _failures(self) -> list[Failure]:
        """Return the failed pods that the job still wants, those included whose delete is under way."""
        framework = self.framework
        return [
            Failure(
                slot.replica,
                slot.pod,
                framework.restart(self.job, slot.replica, framework.exit_code(slot.pod)),
            )
            for slot in self.seen.children.slots
            if slot.wanted and slot.pod is not None and pod_phase(slot.pod) == "Failed"
        ]

    def _converge_pods(self, slots: Sequence[Slot]) -> Iterator[Action]:
        """Yield what gives every wanted slot of one type a pod, and the others none."""
        job, options = self.job, self.observed.options
        events = [e for phase in self.phases for e in phase.creation_events(job, self.framework, options)]
        for slot in slots:
            if slot.wanted and not slot.pods and self.may_start:
                writes = WritesPod(job, self.framework, tuple(self.phases), slot.replica, slot.index, options)
                writes.check()
                told = self.framework.creation(
                    job, slot.replica, job.child_name(slot.replica.type, slot.index)
                )
                if events:
                    told = Told((*told.done[:-1], *events, *told.done[-1:]), told.failed)
                yield Create(resource=PODS, given=writes, told=told)
            elif not slot.wanted and slot.pod is not None and not is_terminating(slot.pod):
                yield Delete.of(PODS, slot.pod, self.framework.surplus_told)

    def _converge_services(self, slots: Sequence[Slot]) -> Iterator[Action]:
        """Yield what gives every wanted slot of one type its service, if it has one, and the others none."""
        for slot in slots:
            if slot.wanted and not slot.services and self.may_start:
                ports = self.framework.service_ports(self.job, slot.replica, slot.index)
                if ports is not None:
                    made = service(self.job, slot.replica, slot.index, ports)
                    told = SERVICE_EVENTS.created(made["metadata"]["name"])
                    yield Create(resource=SERVICES, given=made, told=told)
            elif not slot.wanted and slot.service is not None and not is_terminating(slot.service):
                yield Delete.of(SERVICES, slot.service, SERVICE_EVENTS)


def _ended(job: Job, judgement: Judgement, failures: Sequence[Failure], draft: Draft) -> bool:
    """Write the end of the job if it has come, and say whether it has.

    Success first: what fails beside it no longer matters, and nothing is started or restarted for it.
    """
    if judgement.ran_first:
        _set_running(judgement, draft)
    if judgement.succeeded is not None:
        draft.succeed(judgement.succeeded)
        return True
    permanent = next((failure for failure in failures if failure.restart == "fail"), None)
    if permanent is not None:
        draft.fail(failing_message(job, permanent.replica.type), "Warning")
        return True
    for failing in judgement.failing:
        if not failing.restarts:
            _set_running(judgement, draft)
            draft.fail(failing.message, reason=failing.reason)
            return True
    return False


def _set_running(judgement: Judgement, draft: Draft) -> None:
    if judgement.running is not None:
        draft.set(c.RUNNING, judgement.running)


def _set_restarting(job: Job, judgement: Judgement, replaced: Sequence[Failure], draft: Draft) -> None:
    """Say that pods are being replaced, in one condition however often it is seen, and in events once each.

    Running is not set beside it, even where the master runs: the two replace each other, and a status that
    flips with every pass would never settle.
    """
    starting = [failure for failure in replaced if not is_terminating(failure.pod)]
    # Upstream sets Running in between where pods do run, and the message of the counts stays.
    counted = judgement.running is not None and bool(judgement.failing)
    changed = False
    for type_ in dict.fromkeys(failure.replica.type for failure in starting):
        message = restarting_message(job, type_)
        changed |= not counted and draft.set(c.RESTARTING, message)
        draft.say("Warning", c.RESTARTING, message)
    for failing in judgement.failing:
        changed |= draft.set(c.RESTARTING, failing.message)
        if starting or changed:
            draft.say("Warning", c.RESTARTING, failing.message)
    if starting or changed:
        draft.counters.append("restarted")


def _is_over(draft: Draft) -> bool:
    return draft.is_true(c.SUCCEEDED) or draft.is_true(c.FAILED)
