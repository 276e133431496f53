"""Which phases a job goes through, in order: that of its kind, then those that every kind has."""

from __future__ import annotations

from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Phase
from trainshed.jobs.v1.gang.coscheduling import Coscheduling
from trainshed.jobs.v1.gang.volcano import Volcano

COMMON: list[Phase] = [Volcano(), Coscheduling()]
"""Parts of every kind: scheduling a job's pods as one gang."""


def phases(kind: str, options: OperatorOptions) -> tuple[Phase, ...]:
    """Return the phases of a kind; KeyError for one that is none of v1."""
    return (FRAMEWORKS[kind], *(phase for phase in COMMON if phase.is_enabled(options)))
