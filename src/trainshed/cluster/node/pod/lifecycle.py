"""What to do next for one pod: a pure function of the pod, of what the node sees, and of the time.

    no sandbox ── CreateSandbox ──▶ init containers, in order ──▶ containers, together
  (again when it was lost: init containers, too)  (ephemeral containers: once, at any time)
                                                                     │
       deleted, gone, past its deadline, or every container done ────┤
                                                                     ▼
    preStop ▸ SIGTERM ▸ grace ▸ SIGKILL   (main containers, then sidecars in reverse order, within one grace period)
                                                                     ▼
    StopSandbox ──▶ DeleteObject (a deleted pod) ──▶ RemovePod (nothing of it is left in the API)

Level-triggered: called again after anything changed, it returns what is still missing. The order follows the
kubelet (KEP-753 for sidecars). The status that goes with it is `status.pod_status`; `decide` has both.

Restarts back off as in the kubelet (pkg/kubelet/kuberuntime, `doBackOff`): the first is immediate, then 10 s,
20 s, … up to 300 s after the end of the last run; a run of more than ten minutes starts over, and so does the
node: it remembers no back-off of an earlier life, so a cluster that was stopped comes back at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from trainshed.cluster.node.pod.observed import (
    SIGKILL,
    SIGTERM,
    Attempt,
    Refusal,
    SeenContainer,
    SeenPod,
    Verdict,
)
from trainshed.cluster.node.pod.resizing import DEFERRED, RETRY_SECONDS, change
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.plan import Event, PlanOf
from trainshed.kube.meta.pods import (
    ephemeral_containers,
    find_container,
    init_containers,
    is_finished,
    is_sidecar,
    main_containers,
)
from trainshed.kube.meta.times import parse_time

DEADLINE = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
SANDBOX_CHANGED = Event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
DEFAULT_GRACE_SECONDS = 30.0
FORCED_GRACE_SECONDS = 1.0
"""A pod whose object is gone gets this long between SIGTERM and SIGKILL, as from the kubelet."""
LATE_SIDECAR_SECONDS = 2.0
"""A sidecar whose turn comes when the grace period is over still gets this long, as from the kubelet."""
HOOK_EXTENSION_SECONDS = 2.0
"""A container whose preStop hook used up the grace period still gets this long after SIGTERM."""
INITIAL_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
RESET_AFTER_SECONDS = 600.0


class CreateSandbox(msgspec.Struct, frozen=True, tag=True):
    """Prepare the volumes, then make the sandbox."""


class StartContainer(msgspec.Struct, frozen=True, tag=True):
    name: str
    attempt: int


class Allocate(msgspec.Struct, frozen=True, tag=True):
    """Give the pod the resources that its spec asks for: they count as its own from now on."""


class Resize(msgspec.Struct, frozen=True, tag=True):
    """Let a running container have the resources that it was given."""

    name: str


class BeginStop(msgspec.Struct, frozen=True, tag=True):
    """Note that the stop began and run the preStop hook if there is one."""

    name: str
    attempt: int
    grace: float


class Signal(msgspec.Struct, frozen=True, tag=True):
    name: str
    signal: int


class Condemn(msgspec.Struct, frozen=True, tag=True):
    """Remember that the node ends this pod, and why."""

    verdict: Verdict


class StopSandbox(msgspec.Struct, frozen=True, tag=True):
    """End what is left of the sandbox and give its IP back; logs and files stay."""


class DeleteObject(msgspec.Struct, frozen=True, tag=True):
    """Write the last status, then delete the pod object with grace 0."""


class RemovePod(msgspec.Struct, frozen=True, tag=True):
    """Remove every file of the pod; its worker ends."""


Action: TypeAlias = (
    CreateSandbox
    | StartContainer
    | Allocate
    | Resize
    | BeginStop
    | Signal
    | Condemn
    | StopSandbox
    | DeleteObject
    | RemovePod
)


class PodPlan(PlanOf[Action], frozen=True, kw_only=True):
    """What to do about one pod; the actions may run together."""


class _Draft:
    """Collects actions, their events, and the earliest wake-up."""

    def __init__(self, now: float) -> None:
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.now = now
        self._wake_at: float | None = None

    def wake(self, instant: float) -> None:
        self._wake_at = instant if self._wake_at is None else min(self._wake_at, instant)

    def plan(self) -> PodPlan:
        return PodPlan(
            actions=tuple(self.actions),
            events=tuple(self.events),
            requeue_after=None if self._wake_at is None else self._wake_at - self.now,
        )


def next_steps(pod: Object, seen: SeenPod, now: float, refused: Refusal | None = None) -> PodPlan:
    """Return the plan for `pod` now, its status apart. `refused`: as in `Observed`."""
    draft = _Draft(now)
    if seen.gone:
        if _end(draft, pod, seen, now, FORCED_GRACE_SECONDS):
            draft.actions.append(RemovePod())
        return draft.plan()
    metadata, spec = pod["metadata"], pod["spec"]
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds")
        ended = _end(draft, pod, seen, now, DEFAULT_GRACE_SECONDS if grace is None else float(grace))
        if ended and not seen.deleted:
            draft.actions.append(DeleteObject())
        return draft.plan()
    grace = float(spec.get("terminationGracePeriodSeconds") or 0)
    if seen.verdict is not None and seen.verdict.grace is not None:
        grace = min(grace, seen.verdict.grace)
    if seen.verdict is not None or is_settled(pod, seen) or is_finished(pod):
        _end(draft, pod, seen, now, grace)
        return draft.plan()
    deadline = _deadline(pod, seen)
    if deadline is not None:
        if now >= deadline:
            draft.actions.append(Condemn(DEADLINE))
            draft.events.append(Event("Normal", DEADLINE.reason, DEADLINE.message))
            return draft.plan()
        draft.wake(deadline)
    if refused is not None and not refused:
        draft.actions.append(Allocate())
        return draft.plan()  # the rest follows from it
    if refused is not None and refused.reason == DEFERRED:
        draft.wake(now + RETRY_SECONDS)
    _bring_up(draft, pod, seen, now, grace)
    return draft.plan()


def should_restart(policy: str, attempt: Attempt) -> bool:
    """Return whether `restartPolicy`, or another image, wants another run after `attempt`, which has ended."""
    if policy == "Always" or attempt.outdated:
        return True
    return policy == "OnFailure" and attempt.failed


def is_outdated(container: Object, attempt: Attempt) -> bool:
    """Return whether a container asks for another image than an attempt was started with: it is to run anew."""
    return bool(attempt.image) and container.get("image", attempt.image) != attempt.image


def backoff_seconds(attempts: Sequence[Attempt]) -> float:
    """Return how long after the newest attempt's end the next may start; 0 when at once."""
    delay = 0.0
    for position, attempt in enumerate(attempts):
        if attempt.finished_at is None:
            break
        long_run = attempt.finished_at - attempt.started_at > RESET_AFTER_SECONDS
        if position == 0 or long_run or attempt.earlier or attempt.outdated:
            delay = 0.0
        else:
            delay = min(MAX_BACKOFF_SECONDS, delay * 2 or INITIAL_BACKOFF_SECONDS)
    return delay


def restart_at(attempts: Sequence[Attempt]) -> float:
    """Return the instant from which the next attempt may start."""
    newest = attempts[-1]
    assert newest.finished_at is not None
    return newest.finished_at + backoff_seconds(attempts)


def is_settled(pod: Object, seen: SeenPod) -> bool:
    """Return whether the pod has come to its own end: every main container ended for good, or an init
    container failed for good."""
    policy = pod["spec"].get("restartPolicy", "Always")
    for container in init_containers(pod):
        if is_sidecar(container):
            continue
        newest = seen.container(container["name"]).newest
        if newest is None or newest.running:
            break
        if newest.failed:
            if policy == "Never":
                return True
            break
    for container in main_containers(pod):
        newest = seen.container(container["name"]).newest
        if newest is None or newest.running or should_restart(policy, newest):
            return False
    return True


def _deadline(pod: Object, seen: SeenPod) -> float | None:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    if seconds is None:
        return None
    started = status_of(pod).get("startTime")
    return (parse_time(started) if started else seen.first_seen) + float(seconds)


def _bring_up(draft: _Draft, pod: Object, seen: SeenPod, now: float, grace: float) -> None:
    if seen.stopped:
        return
    if seen.ip is None:
        if seen.problem is not None and now < seen.problem.retry_at:
            draft.wake(seen.problem.retry_at)
        else:
            draft.actions.append(CreateSandbox())
            if any(known.attempts for known in seen.containers.values()):
                draft.events.append(SANDBOX_CHANGED)
        return
    for container in ephemeral_containers(pod):
        _start_ephemeral(draft, seen, container, now)
    if _start_init(draft, pod, seen, now, grace):
        policy = pod["spec"].get("restartPolicy", "Always")
        for container in main_containers(pod):
            _keep_running(draft, pod, seen, container["name"], policy, grace)


def _start_ephemeral(draft: _Draft, seen: SeenPod, container: Object, now: float) -> None:
    """Start the container once; one that is to see another's processes, when that one runs."""
    known, target = seen.container(container["name"]), container.get("targetContainerName")
    if known.attempts or (target and not seen.container(target).running):
        return
    if known.problem is not None and now < known.problem.retry_at:
        draft.wake(known.problem.retry_at)
    else:
        draft.actions.append(StartContainer(container["name"], 0))


def _start_init(draft: _Draft, pod: Object, seen: SeenPod, now: float, grace: float) -> bool:
    """Bring the init containers up in order; return whether the main containers may start."""
    policy = pod["spec"].get("restartPolicy", "Always")
    # Init containers were done once a main container ran: a restarted node agent does not run them again. In a new
    # sandbox they run again, for what they made may be gone with the old one (volumes in memory).
    mains = (seen.container(c["name"]).newest for c in main_containers(pod))
    done = any(newest is not None and not newest.past for newest in mains)
    for container in init_containers(pod):
        name = container["name"]
        known = seen.container(name)
        if is_sidecar(container):
            _keep_running(draft, pod, seen, name, "Always", grace)
            if not done and not (known.running and known.health.started):
                return False
        elif not done:
            newest = known.newest
            again = newest is not None and newest.past and policy != "Never"
            if newest is None or newest.running or newest.failed or again:
                own = "Always" if again else "Never" if policy == "Never" else "OnFailure"
                _keep_running(draft, pod, seen, name, own, grace)
                return False
    return True


def _keep_running(draft: _Draft, pod: Object, seen: SeenPod, name: str, policy: str, grace: float) -> None:
    """Start the container if it never ran, or when its restart is due; stop it when its probes gave up or its image
    is another one."""
    known = seen.container(name)
    newest = known.newest
    if newest is not None and newest.running:
        message = known.health.failure
        if not message and is_outdated(find_container(pod, name) or {}, newest):
            message = f"Container {name} definition changed, will be restarted"
        needed = change(find_container(pod, name) or {}, known)
        if not message and needed == "restart":
            message = f"Container {name} resize requires restart"
        if message:
            _stop(draft, pod, seen, name, grace, message)
        elif needed:
            if seen.resize_problem is not None and draft.now < seen.resize_problem.retry_at:
                draft.wake(seen.resize_problem.retry_at)
            else:
                draft.actions.append(Resize(name))
        return
    if newest is not None:
        if not should_restart(policy, newest):
            return
        due = restart_at(known.attempts)
        if draft.now < due:
            draft.wake(due)
            return
    if known.problem is not None and draft.now < known.problem.retry_at:
        draft.wake(known.problem.retry_at)
        return
    draft.actions.append(StartContainer(name, 0 if newest is None else newest.number + 1))


def _end(draft: _Draft, pod: Object, seen: SeenPod, now: float, grace: float) -> bool:
    """Stop every container, then the sandbox; return whether all is stopped."""
    sidecars = [c["name"] for c in reversed(init_containers(pod)) if is_sidecar(c)]
    others = [name for name, known in seen.containers.items() if known.running and name not in sidecars]
    if others:
        for name in others:
            _stop(draft, pod, seen, name, grace, f"Stopping container {name}")
        return False
    left = grace - (now - _end_began(pod, seen, now))
    late = [name for name in sidecars if seen.container(name).running]
    for name in late:
        own = grace if _is_stopping(seen.container(name)) else left
        own = max(own, LATE_SIDECAR_SECONDS)
        _stop(draft, pod, seen, name, own, f"Stopping container {name}")
        if left > 0:
            # One at a time, last started first: a sidecar may need those before it.
            return False
    if late:
        return False
    if seen.ip is not None and not seen.stopped:
        draft.actions.append(StopSandbox())
        return False
    return True


def _end_began(pod: Object, seen: SeenPod, now: float) -> float:
    """Return when the end of the pod began that its sidecars take part in: the grace period is for all of it."""
    mains = [c for c in (seen.container(m["name"]) for m in main_containers(pod)) if c.newest is not None]
    last = max(mains, key=lambda c: c.attempts[-1].finished_at or now, default=SeenContainer())
    if last.stopping is not None and _is_stopping(last):
        return last.stopping.since
    ends = (seen.container(c["name"]) for c in init_containers(pod) if is_sidecar(c))
    return min((c.stopping.since for c in ends if c.stopping is not None and _is_stopping(c)), default=now)


def _is_stopping(known: SeenContainer) -> bool:
    """Return whether the stop of the newest attempt has begun; also once it is over."""
    return (
        known.newest is not None
        and known.stopping is not None
        and known.stopping.attempt == known.newest.number
    )


def _stop(draft: _Draft, pod: Object, seen: SeenPod, name: str, grace: float, message: str) -> None:
    """Take the container's stop one step further."""
    known = seen.container(name)
    newest, stopping = known.newest, known.stopping
    assert newest is not None
    container = find_container(pod, name) or {}
    if stopping is None or stopping.attempt != newest.number:
        own_grace = _probe_grace(container, known.health.failure, grace)
        draft.actions.append(BeginStop(name, newest.number, own_grace))
        draft.events.append(Event("Normal", "Killing", message))
        return
    # A later delete may shorten the grace period, never lengthen it.
    deadline = stopping.since + min(stopping.grace, max(grace, FORCED_GRACE_SECONDS))
    if stopping.hook == "running" and draft.now < deadline:
        draft.wake(deadline)
        return
    if not stopping.terminated:
        draft.actions.append(Signal(name, SIGTERM))
        return
    if stopping.hook != "none":
        deadline += HOOK_EXTENSION_SECONDS
    if draft.now < deadline:
        draft.wake(deadline)
    elif not stopping.killed:
        draft.actions.append(Signal(name, SIGKILL))


def _probe_grace(container: Object, failure: str, grace: float) -> float:
    """Return the stop's grace: a failed probe may carry its own `terminationGracePeriodSeconds`."""
    if failure:
        for kind in ("livenessProbe", "startupProbe"):
            own = section(container, kind).get("terminationGracePeriodSeconds")
            if own is not None:
                return max(float(own), FORCED_GRACE_SECONDS)
    return max(grace, FORCED_GRACE_SECONDS)
