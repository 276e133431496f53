"""What a pod's worker knows, kept as events arrive; `seen()` freezes it for the pure functions.

The runtime's word wins: an attempt that it lists replaces what was known. All methods are synchronous and
called from the event loop only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trainshed.cluster.node.pod.observed import (
    Attempt,
    Health,
    Problem,
    SeenContainer,
    SeenPod,
    Stopping,
    Verdict,
)
from trainshed.cluster.node.pod.status import container_id
from trainshed.cluster.sandbox.model import ContainerState, SandboxState
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.pods import CONTAINER_STATUSES
from trainshed.kube.meta.times import parse_time

LOST_EXIT_CODE = 137
LOST_REASON = "ContainerStatusUnknown"
LOST_MESSAGE = (
    "The container could not be located: its sandbox is gone (machine restarted, or its shim was killed)"
)
UNKNOWN_REASON = "Unknown"
"""Of a container that ran when the machine went down, as of containerd."""
RETRY_FIRST, RETRY_MAX = 1.0, 60.0
"""Seconds between tries of something that is missing. A change of the missing object cuts the wait short."""


class ContainerRecord:
    """One container; see `SeenContainer`."""

    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}
        self.health = Health()
        self.problem: Problem | None = None
        self.failures = 0
        self.stopping: Stopping | None = None
        self.actuated: Mapping[str, Any] | None = None

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[max(self.attempts)] if self.attempts else None

    def seen(self, since: float) -> SeenContainer:
        """Return a frozen copy; what ended before `since` is marked as of an earlier life of the node agent."""
        ordered = tuple(_placed(self.attempts[n], since) for n in sorted(self.attempts))
        return SeenContainer(ordered, self.health, self.problem, self.stopping, self.actuated)

    def fail(self, reason: str, message: str, now: float, retry_at: float | None = None) -> None:
        """Note that a start did not work and when to try again, by default later each time."""
        self.failures += 1
        due = now + retry_delay(self.failures) if retry_at is None else retry_at
        self.problem = Problem(reason, message, due)

    def clear_problem(self) -> None:
        self.problem, self.failures = None, 0

    def outdate(self) -> None:
        """Have the newest attempt, which has ended, count for nothing: the next may start at once."""
        if self.newest is not None:
            self.attempts[self.newest.number] = msgspec.structs.replace(self.newest, outdated=True)


class PodRecord:
    """One pod; see `SeenPod`."""

    def __init__(self, first_seen: float) -> None:
        self.first_seen = first_seen
        self.ip: str | None = None
        self.stopped = False
        self.gone = False
        self.deleted = False
        self.problem: Problem | None = None
        self.failures = 0
        self.verdict: Verdict | None = None
        self.resize_problem: Problem | None = None
        self.resize_failures = 0
        self.containers: dict[str, ContainerRecord] = {}

    def container(self, name: str) -> ContainerRecord:
        return self.containers.setdefault(name, ContainerRecord())

    def seen(self) -> SeenPod:
        """Return a frozen copy."""
        return SeenPod(
            first_seen=self.first_seen,
            ip=self.ip,
            stopped=self.stopped,
            gone=self.gone,
            deleted=self.deleted,
            problem=self.problem,
            verdict=self.verdict,
            resize_problem=self.resize_problem,
            containers={name: record.seen(self.first_seen) for name, record in self.containers.items()},
        )

    def fail(self, reason: str, message: str, now: float) -> None:
        """Note that the sandbox or the volumes could not be made, and when to try again."""
        self.failures += 1
        self.problem = Problem(reason, message, now + retry_delay(self.failures))

    def clear_problem(self) -> None:
        self.problem, self.failures = None, 0

    def fail_resize(self, message: str, now: float) -> None:
        """Note that a container could not be given its resources, and when to try again."""
        self.resize_failures += 1
        self.resize_problem = Problem("Error", message, now + retry_delay(self.resize_failures))

    def clear_resize_problem(self) -> None:
        self.resize_problem, self.resize_failures = None, 0

    def retry_now(self, now: float) -> None:
        """Let everything that waits for a retry start at once: something that was missing has changed."""
        if self.problem is not None:
            self.problem = msgspec.structs.replace(self.problem, retry_at=now)
        for record in self.containers.values():
            if record.problem is not None:
                record.problem = msgspec.structs.replace(record.problem, retry_at=now)

    def take_container(self, state: ContainerState, reason: str = "") -> Attempt:
        """Take the runtime's view of one attempt; return the attempt."""
        record = self.container(state.name)
        known = record.attempts.get(state.attempt)
        reason = reason or (UNKNOWN_REASON if state.unknown else "")
        attempt = Attempt(
            number=state.attempt,
            started_at=state.started_at,
            finished_at=state.finished_at,
            exit_code=state.exit_code,
            message=state.message if state.finished_at is not None else "",
            reason=reason or (known.reason if known is not None else ""),
            image=known.image if known is not None else "",
            user=state.user or (known.user if known is not None else ()),
            outdated=known is not None and known.outdated,
            past=state.past or (known is not None and known.past),
        )
        record.attempts[state.attempt] = attempt
        return attempt

    def take_sandbox(self, state: SandboxState, host_ip: str, now: float) -> None:
        """Take the runtime's view of the pod. What ran in a sandbox that is dead has ended."""
        for container in state.containers:
            self.take_container(container)
        listed = {(c.name, c.attempt) for c in state.containers}
        self._lose(
            {n for n, r in self.containers.items() if r.newest and (n, r.newest.number) not in listed}, now
        )
        if state.alive:
            self.ip = state.ip or host_ip
        else:
            self.lose_sandbox(now)

    def lose_sandbox(self, now: float) -> None:
        """Note that no process of the pod exists any more."""
        self.ip = None
        self._lose(set(self.containers), now)
        for record in self.containers.values():
            for number, attempt in record.attempts.items():
                record.attempts[number] = msgspec.structs.replace(attempt, past=True)

    def _lose(self, names: set[str], now: float) -> None:
        for name in names:
            record = self.containers[name]
            newest = record.newest
            if newest is not None and newest.running:
                record.attempts[newest.number] = msgspec.structs.replace(
                    newest,
                    finished_at=now,
                    exit_code=LOST_EXIT_CODE,
                    reason=LOST_REASON,
                    message=LOST_MESSAGE,
                )

    def recall(self, pod: Object) -> None:
        """Take from the pod's status what the runtime may not know: why attempts ended, failed starts, and
        runs of which every trace on this machine is gone. Call before `take_sandbox`."""
        status = status_of(pod)
        if status.get("phase") == "Failed" and status.get("reason"):
            self.verdict = Verdict(status["reason"], status.get("message", ""))
        for key in CONTAINER_STATUSES:
            for written in status.get(key) or ():
                record = self.container(written["name"])
                running = section(written, "state").get("running")
                if running:
                    number = int(written.get("restartCount") or 0)
                    record.attempts[number] = Attempt(
                        number,
                        parse_time(running["startedAt"]),
                        image=written.get("image", ""),
                        user=_written_user(written),
                    )
                for number, terminated in _written_ends(pod, written):
                    known = record.attempts.get(number)
                    reason = terminated.get("reason", "")
                    reason = "" if reason in ("Completed", "Error") else reason
                    if known is None:
                        newest = number == int(written.get("restartCount") or 0)
                        user = _written_user(written) if newest else ()
                        record.attempts[number] = _attempt(number, terminated, reason, user)
                    elif not known.running:
                        record.attempts[number] = msgspec.structs.replace(
                            known, reason=known.reason or reason
                        )


def retry_delay(failures: int) -> float:
    """Return how long to wait after that many failures in a row: 1, 2, 4, … 60 s."""
    return min(RETRY_MAX, RETRY_FIRST * 2.0 ** min(max(failures, 1) - 1, 16))


def _written_ends(pod: Object, written: Object) -> list[tuple[int, Object]]:
    """Return (attempt, terminated state) as the status has them, told apart by container id."""
    count = int(written.get("restartCount") or 0)
    out = []
    for part in (section(written, "lastState"), section(written, "state")):
        terminated = part.get("terminated")
        if not terminated:
            continue
        for number in (count, count - 1):
            if number >= 0 and container_id(pod, written["name"], number) == terminated.get("containerID"):
                out.append((number, terminated))
    return out


def _placed(attempt: Attempt, since: float) -> Attempt:
    earlier = attempt.finished_at is not None and attempt.finished_at < since
    return msgspec.structs.replace(attempt, earlier=True) if earlier else attempt


def _written_user(written: Object) -> tuple[int, ...]:
    user = section(written, "user", "linux")
    return (user["uid"], user["gid"], *(user.get("supplementalGroups") or ())) if user else ()


def _attempt(number: int, terminated: Object, reason: str, user: tuple[int, ...]) -> Attempt:
    return Attempt(
        number=number,
        started_at=parse_time(terminated["startedAt"]),
        finished_at=parse_time(terminated["finishedAt"]),
        exit_code=int(terminated.get("exitCode", 0)),
        message=terminated.get("message", ""),
        reason=reason,
        user=user,
    )
