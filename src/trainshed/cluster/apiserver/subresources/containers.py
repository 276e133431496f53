"""The pod and the container that a streaming request means."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object, spec_of

_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def find_pod(core: Core, call: Call) -> Object:
    """Return the pod of the path. Raises `ApiError` 404."""
    stored = core.store.get(call.kind.key(call.route.namespace, call.route.name))
    if stored is None:
        raise call.kind.missing(call.route.name)
    return stored.obj


def choose_container(pod: Object, wanted: str) -> str:
    """Return the container that is named, or the only one.

    Raises:
        ApiError: 400 for an unknown name, or when none is named and there are several.
    """
    spec, name = spec_of(pod), pod["metadata"]["name"]
    known = {field: [c["name"] for c in spec.get(field) or ()] for field in _FIELDS}
    if not wanted:
        if len(known["containers"]) == 1:
            return str(known["containers"][0])
        message = (
            f"a container name must be specified for pod {name}, choose one of:"
            f" [{' '.join(known['containers'])}]"
        )
        if known["initContainers"]:
            message += f" or one of the init containers: [{' '.join(known['initContainers'])}]"
        raise bad_request(message)
    if not any(wanted in names for names in known.values()):
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted
