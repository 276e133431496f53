"""How workload controllers make and end pods, told in the words of the Kubernetes controllers."""

from __future__ import annotations

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create, Delete, Event, Told
from trainshed.kube.meta.resources import PODS

_CREATION = Told(
    (Event("Normal", "SuccessfulCreate", "Created pod: {name}"),),
    Event("Warning", "FailedCreate", "Error creating: "),
)
_DELETION = Told((Event("Normal", "SuccessfulDelete", "Deleted pod: {name}"),))


def creation(pod: Object) -> Create:
    """Return the creation of a new pod."""
    return Create(resource=PODS, object=pod, told=_CREATION)


def deletion(pod: Object) -> Delete:
    """Return the deletion of a pod that was seen."""
    return Delete.of(PODS, pod, _DELETION)
