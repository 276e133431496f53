"""RuntimeClasses: what a pod's class adds to it.

Source: the RuntimeClass admission plug-in.
"""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError, forbidden
from trainshed.kube.meta.objects import Object, objects, section
from trainshed.kube.meta.resources import RUNTIMECLASSES


def resolve(core: Core, obj: Object) -> Object:
    """Return the fields of a pod's spec that its RuntimeClass decides.

    Raises:
        ApiError: 403 when there is no such class, or the pod says otherwise than its class.
    """
    spec = obj["spec"]
    name = spec.get("runtimeClassName")
    stored = core.store.get(keys.of(RUNTIMECLASSES, None, name)) if name else None
    if name and stored is None:
        raise _refused(obj, f'pod rejected: RuntimeClass "{name}" not found')
    found = stored.obj if stored is not None else {}
    decided = {}
    overhead = section(found, "overhead").get("podFixed")
    if spec.get("overhead") and overhead is None:
        raise _refused(
            obj, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
    if overhead is not None:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise _refused(obj, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        decided["overhead"] = overhead
    scheduling = section(found, "scheduling")
    if scheduling:
        decided["nodeSelector"] = _selector(obj, section(scheduling, "nodeSelector"))
        own = objects(spec, "tolerations")
        decided["tolerations"] = [*own, *(t for t in objects(scheduling, "tolerations") if t not in own)]
    return decided


def _selector(obj: Object, wanted: Object) -> Object:
    own = section(obj["spec"], "nodeSelector")
    for key, value in wanted.items():
        if own.get(key, value) != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            raise _refused(obj, f"{text}pod.spec.nodeSelector[{key}] = {own[key]}")
    return {**own, **wanted}


def _refused(obj: Object, why: str) -> ApiError:
    return forbidden("pods", "", obj["metadata"].get("name", ""), why)
