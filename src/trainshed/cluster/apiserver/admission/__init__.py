"""What a write meets that depends on other objects: the built-in admission of the API server.

One file per concern; this one says which kinds meet which. Functions return the object to go on with, which
may be the one they got, and raise `ApiError` to refuse.

Source: the "Admission Control in Kubernetes" reference page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trainshed.cluster.apiserver.admission import (
    certificates,
    limits,
    namespaces,
    pods,
    policytypes,
    priority,
    security,
    services,
    volumes,
)
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.definitions import check_served
from trainshed.kube.builtin.apps.daemonset import numbered
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CERTIFICATESIGNINGREQUESTS

_CREATE: dict[tuple[str, str], Callable[[Core, Call, Object], Awaitable[Object]]] = {
    ("", "pods"): pods.admit,
    ("", "services"): services.admit,
    ("", "persistentvolumeclaims"): volumes.admit_claim,
    ("scheduling.k8s.io", "priorityclasses"): priority.admit_class,
    ("certificates.k8s.io", "certificatesigningrequests"): certificates.admit,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): policytypes.admit,
}
_UPDATE: dict[tuple[str, str], Callable[[Core, Call, Object, Object], Object]] = {
    ("", "pods"): pods.admit_update,
    ("", "services"): services.admit_update,
    ("", "persistentvolumeclaims"): volumes.admit_claim_update,
    ("scheduling.k8s.io", "priorityclasses"): priority.admit_class_update,
    ("apps", "daemonsets"): lambda core, call, old, new: numbered(new, old),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): policytypes.admit_update,
}


async def mutate_create(core: Core, call: Call, obj: Object) -> Object:
    """Return `obj` as admission wants it. Raises `ApiError` 403, 404."""
    resource = call.kind.resource
    if resource.namespaced:
        namespaces.check_active(core, call, obj)
    if call.kind.info.crd:
        check_served(core, call)
    if call.kind.builtin is not None and call.kind.builtin.identify is not None:
        obj = call.kind.builtin.identify(obj)
    admit = _CREATE.get((resource.group, resource.plural))
    return obj if admit is None else await admit(core, call, obj)


def mutate_update(core: Core, call: Call, old: Object, new: Object, subresource: str) -> Object:
    """Return `new` as admission wants it. Raises `ApiError` 403."""
    resource = call.kind.resource
    if resource == CERTIFICATESIGNINGREQUESTS:
        return certificates.admit_update(core, call, old, new, subresource)
    admit = _UPDATE.get((resource.group, resource.plural))
    return new if admit is None or subresource else admit(core, call, old, new)


def check(core: Core, call: Call, new: Object, old: Object | None, subresource: str) -> None:
    """Refuse, or warn of, a valid object. Raises `ApiError` 403, 422."""
    if call.kind.builtin is not None:
        limits.check(core, call, new, old, subresource)
        security.check(core, call, new, old, subresource)
