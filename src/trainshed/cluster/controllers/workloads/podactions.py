"""How workload controllers make and end pods, told in the words of the Kubernetes controllers."""

from __future__ import annotations

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create, Delete, Tells
from trainshed.kube.meta.resources import PODS

_EVENTS = Tells("", "pod")


def creation(pod: Object) -> Create:
    """Return the creation of a new pod, whose name the server chooses."""
    return Create(resource=PODS, given=pod, told=_EVENTS.created("{name}"))


def deletion(pod: Object) -> Delete:
    """Return the deletion of a pod that was seen."""
    return Delete.of(PODS, pod, _EVENTS)
