"""The state of the cluster that decides over places, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from trainshed.cluster.scheduler.predicates import allocatable, takes_pods
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod, ScheduledPods
from trainshed.kube.meta.amounts import Amounts
from trainshed.kube.meta.objects import Object, labels_of

_ZERO = Decimal(0)


class Snapshot(msgspec.Struct, frozen=True):
    """What decides over places.

    `used`: what pods hold on each node by name, including those bound but not yet seen back. `claims`: those
    PersistentVolumeClaims that exist and matter, by namespace and name. `scheduled`: the pods that have a node.
    `namespaces`: labels of each. `budgets`: the PodDisruptionBudgets.
    """

    nodes: Sequence[Object]
    used: Mapping[str, Mapping[str, Decimal]]
    claims: Mapping[tuple[str, str], Object] = {}
    scheduled: ScheduledPods = msgspec.field(default_factory=ScheduledPods)
    namespaces: Mapping[str, Mapping[str, str]] = {}
    budgets: Sequence[Object] = ()

    def claims_of(self, namespace: str) -> dict[str, Object]:
        """Return the claims of one namespace by name."""
        return {name: claim for (where, name), claim in self.claims.items() if where == namespace}

    def free(self) -> Amounts:
        """Return what the nodes have left together; one that takes no pods has nothing."""
        total: Amounts = {}
        for node in filter(takes_pods, self.nodes):
            for name, amount in self.free_on(node).items():
                total[name] = total.get(name, _ZERO) + max(amount, _ZERO)
        return total

    def free_on(self, node: Object) -> Amounts:
        """Return what one node has left."""
        held = self.used.get(node["metadata"]["name"], {})
        return {name: amount - held.get(name, _ZERO) for name, amount in allocatable(node).items()}

    def free_by_node(self) -> dict[str, Amounts]:
        """Return what each node has left."""
        return {node["metadata"]["name"]: self.free_on(node) for node in self.nodes}

    def labels(self) -> dict[str, Mapping[str, str]]:
        """Return the labels of each node by its name."""
        return {node["metadata"]["name"]: labels_of(node) for node in self.nodes}

    def without(self, pods: Iterable[ScheduledPod]) -> Snapshot:
        """Return the snapshot once these pods are gone."""
        used = dict(self.used)
        scheduled = self.scheduled.copy()
        for pod in pods:
            scheduled.remove(pod.uid)
            used[pod.node] = less(used.get(pod.node, {}), pod.requests)
        return msgspec.structs.replace(self, used=used, scheduled=scheduled)

    def beside(self, pods: Iterable[ScheduledPod]) -> Snapshot:
        """Return the snapshot once these pods are there, too."""
        used = dict(self.used)
        scheduled = self.scheduled.copy()
        for pod in pods:
            scheduled.put(pod)
            used[pod.node] = more(used.get(pod.node, {}), pod.requests)
        return msgspec.structs.replace(self, used=used, scheduled=scheduled)


def more(held: Mapping[str, Decimal], amounts: Mapping[str, Decimal]) -> Amounts:
    """Return the sum of two amounts."""
    return {**held, **{name: held.get(name, _ZERO) + amount for name, amount in amounts.items()}}


def less(held: Mapping[str, Decimal], amounts: Mapping[str, Decimal]) -> Amounts:
    """Return what is left of the first without the second."""
    return {**held, **{name: held.get(name, _ZERO) - amount for name, amount in amounts.items()}}
