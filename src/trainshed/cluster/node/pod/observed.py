"""What the node sees of one pod: the frozen input of `decide`.

Built by the pod's worker from the sandbox runtime's state, the probes and what the worker itself did. An
instant is seconds since the epoch; `None` means "not yet".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object

SIGTERM = 15
SIGKILL = 9
START_FAILURES = (126, 127, 128)
"""What an attempt ends with whose command cannot be executed, is not there, or cannot be set up."""


class Attempt(msgspec.Struct, frozen=True):
    """One run of a container; `number` counts from 0 and is the container's restart count.

    `exit_code` is what the shell would say: 128 + signal for a process that a signal ended. `reason` is set
    when more is known than the exit code tells: `StartError`, `OOMKilled`. `earlier`: it ended before this node
    agent started, perhaps because everything was stopped, and does not count for back-off. `image`: what its container
    asked for, empty where nobody knows. `user`: the numbers of its user, group and further groups, where they
    are known. `outdated`: it was stopped since its container asks for another image. `past`: it ran in a
    sandbox that is gone.
    """

    number: int
    started_at: float
    finished_at: float | None = None
    exit_code: int | None = None
    message: str = ""
    reason: str = ""
    earlier: bool = False
    image: str = ""
    user: tuple[int, ...] = ()
    outdated: bool = False
    past: bool = False

    @property
    def running(self) -> bool:
        return self.finished_at is None

    @property
    def failed(self) -> bool:
        return self.finished_at is not None and self.exit_code != 0

    @property
    def failed_to_start(self) -> bool:
        """Whether it was over as it began: its program could not be run."""
        return self.exit_code in START_FAILURES and self.started_at == self.finished_at


class Problem(msgspec.Struct, frozen=True):
    """Why something cannot start yet: the `waiting` state's reason and message, and when to try again."""

    reason: str
    message: str
    retry_at: float


class Health(msgspec.Struct, frozen=True):
    """What the probes say of the newest attempt.

    `started`: the startup probe passed or there is none. `failure` is not empty when a startup or liveness
    probe gave up: the container must be restarted.
    """

    started: bool = False
    ready: bool = False
    failure: str = ""


class Stopping(msgspec.Struct, frozen=True):
    """A stop of a container's newest attempt that is under way.

    `grace` is in seconds from `since`. `hook` is the preStop hook: "none", "running" or "done".
    """

    attempt: int
    since: float
    grace: float
    hook: str = "none"
    terminated: bool = False
    killed: bool = False


class SeenContainer(msgspec.Struct, frozen=True):
    """One container: its attempts, oldest first, and what is known of the newest.

    `actuated` are its resources that are in force while it runs: empty where nobody knows, None for those of the pod.
    """

    attempts: tuple[Attempt, ...] = ()
    health: Health = Health()
    problem: Problem | None = None
    stopping: Stopping | None = None
    actuated: Mapping[str, Any] | None = None

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def running(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].running


class Verdict(msgspec.Struct, frozen=True):
    """The node's decision to end the pod: becomes `status.reason` and `status.message` of a Failed pod.

    `grace` is in seconds; None: the pod's own. `disruption` is the reason of the condition `DisruptionTarget` of a pod
    that could do nothing about its end, else empty.
    """

    reason: str
    message: str
    grace: float | None = None
    disruption: str = ""


class SeenPod(msgspec.Struct, frozen=True):
    """One pod as the node sees it.

    `ip` is None while there is no sandbox. `stopped`: the sandbox was stopped and its IP given back; it is
    never started again. `gone`: the API has no such pod any more. `deleted`: the final DELETE was sent.
    `first_seen` stands in for `status.startTime` until that is written. `resize_problem`: why a container does not
    have yet what it was given.
    """

    first_seen: float
    ip: str | None = None
    stopped: bool = False
    gone: bool = False
    deleted: bool = False
    problem: Problem | None = None
    verdict: Verdict | None = None
    resize_problem: Problem | None = None
    containers: Mapping[str, SeenContainer] = {}

    def container(self, name: str) -> SeenContainer:
        return self.containers.get(name) or SeenContainer()


class Refusal(msgspec.Struct, frozen=True):
    """Why a pod is not given the resources that its spec asks for; empty where it can be given them."""

    reason: str = ""
    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


class StatusContext(msgspec.Struct, frozen=True):
    """What the status says of the node: its address, and the digest of each image used."""

    host_ip: str
    image_id: Callable[[str], str] = lambda image: ""


class Observed(msgspec.Struct, frozen=True):
    """One pod and all that is decided from: its object with the status that it was last given, what the node sees of
    it, and the time in seconds since the epoch.

    The object has the resources that the node gave it. Where its spec asks for others, `refused` is not None.
    """

    pod: Object
    seen: SeenPod
    now: float
    node: StatusContext
    refused: Refusal | None = None
