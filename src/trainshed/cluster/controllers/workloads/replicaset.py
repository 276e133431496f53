"""What a ReplicaSet needs next: pods to adopt, to make and to end, and its status. Pure.

Source: apps/v1 ReplicaSetStatus, and "ReplicaSet" in the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.cluster.controllers.workloads.podactions import creation, deletion
from trainshed.cluster.controllers.workloads.replicafailure import conditions_of
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.ownership import adoption, family, without_owner
from trainshed.kube.meta.plan import Action, Adopt, Patch, Plan
from trainshed.kube.meta.pods import available_in, from_template, is_active, is_ready, surplus
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.selectors import LabelSelector


class Observed(msgspec.Struct, frozen=True):
    """One ReplicaSet that is not being deleted. `pods`: those it controls, and the orphans of its namespace."""

    replica_set: Object
    pods: Sequence[Object]
    now: float


def decide(observed: Observed) -> Plan:
    """Return the next step. Pods are adopted and released before they are counted."""
    replica_set = observed.replica_set
    found = family(replica_set, observed.pods, selector_of(replica_set))
    if found.adopt or found.release:
        uid = replica_set["metadata"]["uid"]
        return Plan(
            actions=(
                *(Patch(resource=PODS, object=pod, patch=without_owner(pod, uid)) for pod in found.release),
                *(Adopt(resource=PODS, object=pod, patch=adoption(pod, replica_set)) for pod in found.adopt),
            )
        )
    pods = [pod for pod in found.held if is_active(pod)]
    status, wait = replica_status(replica_set, pods, observed.now)
    missing = int(replica_set["spec"].get("replicas", 1)) - len(pods)
    if conditions := conditions_of(replica_set, missing):
        status["conditions"] = conditions
    return Plan(
        actions=(*_creations(replica_set, missing), *_deletions(pods, -missing)),
        status=status,
        requeue_after=wait,
    )


def _creations(replica_set: Object, count: int) -> tuple[Action, ...]:
    if count <= 0:
        return ()
    name = f"{replica_set['metadata']['name']}-"
    pod = from_template(replica_set, replica_set["spec"]["template"], generate_name=name)
    return (creation(pod),) * count


def _deletions(pods: Sequence[Object], count: int) -> tuple[Action, ...]:
    return tuple(deletion(pod) for pod in surplus(pods, max(count, 0)))


def replica_status(replica_set: Object, pods: Sequence[Object], now: float) -> tuple[Object, float | None]:
    """Return the status that the active pods amount to, and in how many seconds another becomes available.

    Zero counts other than `replicas` are left out, as on the wire.
    """
    labels = section(replica_set["spec"]["template"], "metadata", "labels")
    waits = [available_in(pod, int(replica_set["spec"].get("minReadySeconds") or 0), now) for pod in pods]
    counts = {
        "fullyLabeledReplicas": sum(
            labels.items() <= section(pod["metadata"], "labels").items() for pod in pods
        ),
        "readyReplicas": sum(is_ready(pod) for pod in pods),
        "availableReplicas": sum(wait == 0 for wait in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    status = {"replicas": len(pods), **{name: count for name, count in counts.items() if count}}
    return status, min((wait for wait in waits if wait), default=None)


def selector_of(replica_set: Object) -> LabelSelector:
    """Return which pods the set may have."""
    return LabelSelector.from_object(replica_set["spec"].get("selector"))
