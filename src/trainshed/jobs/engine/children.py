"""Which observed objects belong to the job, and which replica each of them is.

A slot is one index of one replica type. Normally it holds one pod and one service of the same name. A pod that
shares its slot with another was labelled by hand: neither is counted, deleted or replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Job, Replica
from trainshed.kube.meta.objects import Object, controller_uid, labels_of, name_of


class Slot(msgspec.Struct, frozen=True):
    """One index of one replica type and what stands there. `wanted` is False above the replica count."""

    replica: Replica
    index: int
    wanted: bool
    pods: list[Object]
    services: list[Object]

    @property
    def pod(self) -> Object | None:
        """The pod of the slot, None when there is none or when several claim to be it."""
        return self.pods[0] if len(self.pods) == 1 else None

    @property
    def service(self) -> Object | None:
        """The service of the slot, None when there is none or when several claim to be it."""
        return self.services[0] if len(self.services) == 1 else None


class Children(msgspec.Struct, frozen=True):
    """The children of one job; `slots` are in reconcile order: type by type, index by index."""

    pods: list[Object]
    services: list[Object]
    slots: list[Slot]

    def of(self, replica: Replica) -> Iterator[Slot]:
        """Yield the slots of one replica type by index."""
        return (slot for slot in self.slots if slot.replica.type == replica.type)


def classify(job: Job, pods: list[Object], services: list[Object]) -> Children:
    """Return the children of the job among the observed objects, sorted into slots."""
    own_pods = _controlled(job, pods)
    own_services = _controlled(job, services)
    slots = []
    for replica in job.replicas:
        pods_at = _by_index(own_pods, replica)
        services_at = _by_index(own_services, replica)
        for index in sorted({*range(replica.count), *pods_at, *services_at}):
            here = (pods_at.get(index, []), services_at.get(index, []))
            slots.append(Slot(replica, index, index < replica.count, *here))
    return Children(own_pods, own_services, slots)


def replica_index(obj: Object) -> int | None:
    """Return the replica index label, None when it is missing or no decimal number."""
    text = labels_of(obj).get(c.LABEL_REPLICA_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _controlled(job: Job, candidates: list[Object]) -> list[Object]:
    """Return those with our labels that this very job controls, by name.

    An object of an earlier job with the same name is left to the garbage collector.
    """
    wanted = job.labels().items()
    own = [o for o in candidates if controller_uid(o) == job.uid and wanted <= labels_of(o).items()]
    return sorted(own, key=name_of)


def _by_index(objects: list[Object], replica: Replica) -> dict[int, list[Object]]:
    out: dict[int, list[Object]] = {}
    for obj in objects:
        index = replica_index(obj)
        if index is not None and labels_of(obj).get(c.LABEL_REPLICA_TYPE) == replica.slug:
            out.setdefault(index, []).append(obj)
    return out
