"""LimitRanger: pods and claims get what their namespace's LimitRanges give, and are held to what they allow."""

from __future__ import annotations

from collections.abc import Callable

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import forbidden
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import LIMITRANGES, PERSISTENTVOLUMECLAIMS, PODS
from trainshed.kube.policy.limits import aggregated, claim_refusals, pod_refusals, with_defaults


def _ranges(core: Core, call: Call) -> list[Object]:
    found = core.store.list(keys.under(LIMITRANGES, call.route.namespace))[0]
    return [stored.obj for stored in found if not stored.obj["metadata"].get("deletionTimestamp")]


def admit_pod(core: Core, call: Call, pod: Object) -> Object:
    """Return a new pod with the requests and limits that it left out."""
    ranges = _ranges(core, call)
    return with_defaults(pod, ranges) if ranges else pod


def check(core: Core, call: Call, new: Object, old: Object | None, subresource: str) -> None:
    """Raise `ApiError` 403 for a pod or a claim that asks for more or less than a range allows."""
    resource = call.kind.resource
    refusals: Callable[[Object, Object], list[str]]
    if resource == PODS and (old is None or subresource == "resize"):
        refusals = pod_refusals
    elif resource == PERSISTENTVOLUMECLAIMS and not subresource:
        refusals = claim_refusals
    else:
        return
    for limit_range in _ranges(core, call):
        found = refusals(new, limit_range)
        if found:
            raise forbidden(resource.plural, "", new["metadata"].get("name", ""), aggregated(found))
