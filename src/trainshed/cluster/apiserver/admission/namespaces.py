"""NamespaceLifecycle: objects live in namespaces that exist and are not being deleted."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError, Cause, forbidden, not_found
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import NAMESPACES

UNDELETABLE = frozenset({"default", "kube-system", "kube-public"})


def check_active(core: Core, call: Call, obj: Object) -> None:
    """Raise 404 when the namespace of a new object does not exist, 403 when it is being deleted."""
    name = call.route.namespace or ""
    stored = core.store.get(keys.of(NAMESPACES, None, name))
    if stored is None:
        raise not_found("namespaces", "", name)
    since = stored.obj["metadata"].get("deletionTimestamp")
    if since:
        resource = call.kind.resource
        own = obj["metadata"].get("name", "")
        why = f"unable to create new content in namespace {name} because it is being terminated"
        error = forbidden(resource.plural, resource.group, own, why)
        cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
        raise ApiError(
            403,
            "Forbidden",
            error.message,
            name=own,
            group=resource.group,
            kind=resource.plural,
            causes=[cause],
        )
