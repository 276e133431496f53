"""The kinds that we own: one line each."""

from __future__ import annotations

from trainshed.api.kind import Kind
from trainshed.api.v1.jax import JAXJOB
from trainshed.api.v1.mpi import MPIJOB
from trainshed.api.v1.mx import MXJOB
from trainshed.api.v1.paddle import PADDLEJOB
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.api.v1.tensorflow import TFJOB
from trainshed.api.v1.xgboost import XGBOOSTJOB

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        PYTORCHJOB,
        TFJOB,
        MPIJOB,
        XGBOOSTJOB,
        PADDLEJOB,
        JAXJOB,
        MXJOB,
    )
}
"""Every kind by its name."""
