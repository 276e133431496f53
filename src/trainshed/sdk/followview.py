"""What a follow of a job shows while it goes on, and what it returns at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.sdk import state as jobstate
from trainshed.sdk.progress import Progress


class Snapshot(msgspec.Struct):
    """All that a view shows. `progress` is of the first replica that tells; `started_at` is in epoch seconds."""

    job: Object
    replicas: list[jobstate.Replica]
    progress: Progress
    started_at: float


class View(Protocol):
    """Where a follow shows what it sees."""

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Some log lines of a replica; no more of it are read meanwhile."""

    def frame(self, replica: str, text: str) -> None:
        """What is there of a replica's next line, which is drawn over itself, as progress bars are."""

    def update(self, snapshot: Snapshot) -> None:
        """The job, a pod or the progress changed."""

    def event(self, text: str) -> None:
        """Something worth a line of its own: a condition, a restart, a Pending reason."""


class Outcome(msgspec.Struct):
    """How the job ended. `tails` holds each replica's last lines."""

    job: Object | None
    pods: list[Object]
    progress: Progress
    tails: dict[str, list[str]]
