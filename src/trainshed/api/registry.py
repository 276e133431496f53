"""The kinds that we own: one line each."""

from __future__ import annotations

from trainshed.api.kind import Kind
from trainshed.api.v1.mpi import MPIJOB
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.api.v1.tensorflow import TFJOB
from trainshed.api.v1.xgboost import XGBOOSTJOB

KINDS: dict[str, Kind] = {kind.name: kind for kind in (PYTORCHJOB, TFJOB, MPIJOB, XGBOOSTJOB)}
"""Every kind by its name."""
