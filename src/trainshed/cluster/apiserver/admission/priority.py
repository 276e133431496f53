"""Priority: a pod's class becomes a number."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import forbidden
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PRIORITYCLASSES


def resolve(core: Core, call: Call, obj: Object) -> Object:
    """Return the fields of a pod's spec that its PriorityClass decides.

    Raises:
        ApiError: 403 when there is no such class, or the pod names another priority than its own.
    """
    spec = obj["spec"]
    name = spec.get("priorityClassName")
    found: Object | None
    if name:
        stored = core.store.get(keys.of(PRIORITYCLASSES, None, name))
        if stored is None:
            raise forbidden(
                "pods", "", obj["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
        found = stored.obj
    else:
        classes = [
            s.obj for s in core.store.list(keys.under(PRIORITYCLASSES))[0] if s.obj.get("globalDefault")
        ]
        found = min(classes, key=lambda c: int(c.get("value", 0)), default=None)
    value = int(found.get("value", 0)) if found is not None else 0
    if spec.get("priority") not in (None, value):
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission"
            f" controller computed {value} from the given PriorityClass name"
        )
        raise forbidden("pods", "", obj["metadata"].get("name", ""), text)
    if found is None:
        return {"priority": 0, "preemptionPolicy": spec.get("preemptionPolicy") or "PreemptLowerPriority"}
    return {
        "priorityClassName": found["metadata"]["name"],
        "priority": found.get("value", 0),
        "preemptionPolicy": found.get("preemptionPolicy") or "PreemptLowerPriority",
    }


async def admit_class(core: Core, call: Call, obj: Object) -> Object:
    """Refuse a second class that is the global default."""
    return _alone(core, obj)


def admit_class_update(core: Core, call: Call, old: Object, new: Object) -> Object:
    """Refuse to make a class the global default beside another."""
    return _alone(core, new)


def _alone(core: Core, obj: Object) -> Object:
    if obj.get("globalDefault"):
        for stored in core.store.list(keys.under(PRIORITYCLASSES))[0]:
            other = stored.obj["metadata"]["name"]
            if stored.obj.get("globalDefault") and other != obj["metadata"].get("name"):
                raise forbidden(
                    "priorityclasses",
                    "scheduling.k8s.io",
                    obj["metadata"].get("name", ""),
                    f"PriorityClass {other} is already marked as default. Only one default can exist",
                )
    return obj
