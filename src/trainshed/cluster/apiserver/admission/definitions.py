"""Custom resources whose definition is going away take no new objects."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.errors import ApiError


def check_served(core: Core, call: Call) -> None:
    """Raise 405 when the CustomResourceDefinition of a new object is being deleted."""
    name = call.kind.info.crd_name
    stored = core.store.get(f"/apiextensions.k8s.io/customresourcedefinitions/-/{name}")
    if stored is not None and stored.obj["metadata"].get("deletionTimestamp"):
        raise ApiError(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
            kind=call.kind.resource.plural,
            group=call.kind.resource.group,
        )
