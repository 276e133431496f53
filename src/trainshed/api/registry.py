"""The kinds that we own: one line each."""

from __future__ import annotations

from trainshed.api.kind import Kind
from trainshed.api.v1.mpi import MPIJOB
from trainshed.api.v1.pytorch import PYTORCHJOB

KINDS: dict[str, Kind] = {kind.name: kind for kind in (PYTORCHJOB, MPIJOB)}
"""Every kind by its name."""
