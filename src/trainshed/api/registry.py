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
from trainshed.kube.meta.objects import Object

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


def kind_of(obj: Object) -> Kind | None:
    """Return the kind of an object; None where it is not ours, or is ours in another version."""
    kind = KINDS.get(str(obj.get("kind")))
    return kind if kind is not None and kind.api_version == obj.get("apiVersion") else None


def is_of_our_groups(obj: Object) -> bool:
    """Return whether the object's group is one of our kinds', valid or not."""
    group = str(obj.get("apiVersion")).rpartition("/")[0]
    return any(group == kind.group for kind in KINDS.values())
