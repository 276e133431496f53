"""Which observed objects belong to the job, which replica each of them is, and how many do how well.

A slot is one index of one replica type. Normally it holds one pod and one service of the same name. A pod that
shares its slot with another was labelled by hand: neither is counted, deleted or replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Job, Replica
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, labels_of, name_of
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.pods import terminated_states


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of one replica type run, ended well, or failed; pending ones are in none."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Slot(msgspec.Struct, frozen=True):
    """One index of one replica type and what stands there. `wanted` is False above the replica count.

    A replica type without indexes has one slot, of index 0.
    """

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


def classify(job: Job, pods: Sequence[Object], services: Sequence[Object]) -> Children:
    """Return the children of the job among the observed objects, sorted into slots."""
    own_pods = _controlled(job, pods)
    own_services = _controlled(job, services)
    pods_by_type, services_by_type = _by_type(own_pods), _by_type(own_services)
    slots = []
    for replica in job.replicas:
        pods_at = _by_index(pods_by_type.get(replica.slug, ()), replica)
        services_at = _by_index(services_by_type.get(replica.slug, ()), replica)
        for index in sorted({*range(replica.slots), *pods_at, *services_at}):
            here = (pods_at.get(index, []), services_at.get(index, []))
            slots.append(Slot(replica, index, index < replica.count, *here))
    return Children(own_pods, own_services, slots)


def tally(slots: Iterable[Slot]) -> Tally:
    """Return how the pods that one replica type wants are doing; those above its count speak for nothing.

    A running pod that is being deleted counts as failed: it will not finish its work.
    """
    active = succeeded = failed = 0
    for slot in slots:
        if slot.pod is None or not slot.wanted:
            continue
        phase = pod_phase(slot.pod)
        if phase == "Running" and not is_terminating(slot.pod):
            active += 1
        elif phase == "Succeeded":
            succeeded += 1
        elif phase in ("Running", "Failed"):
            failed += 1
    return Tally(active=active, succeeded=succeeded, failed=failed)


def count_in(counts: Object, field: str) -> int:
    """Return a stored count, 0 where it is unset or no integer."""
    count = counts.get(field)
    return count if isinstance(count, int) else 0


def exit_code(pod: Object, container: str) -> int | None:
    """Return the exit code of the named container, None when none was recorded."""
    codes = [
        code for state in terminated_states(pod, container) if isinstance(code := state.get("exitCode"), int)
    ]
    return codes[-1] if codes else None


def replica_index(labels: Mapping[str, str]) -> int | None:
    """Return the replica index label, None when it is missing or no decimal number."""
    text = labels.get(c.LABEL_REPLICA_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _controlled(job: Job, candidates: Sequence[Object]) -> list[Object]:
    """Return those with our labels that this very job controls, by name.

    An object of an earlier job with the same name is left to the garbage collector.
    """
    wanted = job.labels().items()
    own = [o for o in candidates if controller_uid(o) == job.uid and wanted <= labels_of(o).items()]
    return sorted(own, key=name_of)


def _by_type(children: Sequence[Object]) -> dict[str, list[tuple[int | None, Object]]]:
    """Return the children with their index labels, by replica type label."""
    out: dict[str, list[tuple[int | None, Object]]] = {}
    for child in children:
        labels = labels_of(child)
        out.setdefault(labels.get(c.LABEL_REPLICA_TYPE, ""), []).append((replica_index(labels), child))
    return out


def _by_index(children: Iterable[tuple[int | None, Object]], replica: Replica) -> dict[int, list[Object]]:
    out: dict[int, list[Object]] = {}
    for labelled, child in children:
        index = labelled if replica.indexed else 0
        if index is not None:
            out.setdefault(index, []).append(child)
    return out
