"""Which phases a job goes through, in order: that of its kind, then those that every kind has."""

from __future__ import annotations

from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Phase

COMMON: list[Phase] = []
"""Parts of every kind, such as scheduling a job's pods as one gang."""


def phases(kind: str, options: OperatorOptions) -> tuple[Phase, ...]:
    """Return the phases of a kind; KeyError for one that is none of v1."""
    return (FRAMEWORKS[kind], *(phase for phase in COMMON if phase.is_enabled(options)))
