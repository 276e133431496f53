"""What every face reads from a training job and its pods. Pure views of the objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.api.registry import kind_of
from trainshed.jobs.engine.constants import (
    JOB_ROLE_MASTER,
    LABEL_JOB_ROLE,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
)
from trainshed.kube.meta.objects import Object, labels_of, objects, section, status_of
from trainshed.sdk.errors import UserError
from trainshed.sdk.progress import epochs_of

_RANGES = 3
"""So many ranges of replicas are named; of more, how many replicas they are."""

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_GRACE_SECONDS = 30
"""A pod's terminationGracePeriodSeconds where it says none (core/v1)."""


class Replica(msgspec.Struct, frozen=True):
    """One pod as the live view shows it. `state` is what kubectl's STATUS column would say."""

    name: str
    pod: str
    state: str
    detail: str = ""
    restarts: int = 0


def replica_specs(job: Object) -> Mapping[str, Any]:
    """Return the map from replica type to its spec; empty for a kind without one."""
    kind = kind_of(job)
    return {} if kind is None else kind.replica_specs(job)


def require_replicas(job: Object) -> None:
    """Refuse a training job with a replica type that is empty, or with none at all.

    Servers drop an empty entry and take the rest; a job that is left without replicas stays Created for ever.

    Raises:
        UserError: with the path of what is missing.
    """
    kind = kind_of(job)
    for path in () if kind is None else kind.empty_replicas(job):
        raise UserError(
            f"{job['kind']} {job['metadata']['name']}: {path}: Required value",
            "a replica type needs a template with a container",
        )


class Condition(msgspec.Struct, frozen=True):
    """One entry of `status.conditions`; times are RFC 3339 in UTC, empty when unset."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""

    @property
    def holds(self) -> bool:
        """Whether the status is True."""
        return self.status == "True"


def conditions_of(job: Object) -> list[Condition]:
    """Return the job's conditions in their order, the latest change last."""
    return [
        Condition(
            str(c.get("type", "")),
            str(c.get("status", "")),
            str(c.get("reason") or ""),
            str(c.get("message") or ""),
            str(c.get("lastTransitionTime") or ""),
        )
        for c in objects(status_of(job), "conditions")
    ]


def state_of(job: Object) -> str:
    """Return the type of the last condition that holds: `Created`, `Running`, `Succeeded` …; `Pending` before any."""
    return str(true_condition(job).get("type", "Pending"))


def epochs(job: Object) -> int | None:
    """Return the largest number of epochs that a replica's command asks for; None where none says."""
    counts = []
    for template in _templates(job):
        for container in objects(section(template, "spec"), "containers"):
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            counts.append(epochs_of(" ".join(map(str, words))))
    return max((count for count in counts if count is not None), default=None)


def init_containers(job: Object) -> frozenset[str]:
    """Return the names of the init containers that the job itself asks for; the operator may add others."""
    return frozenset(
        str(container.get("name"))
        for template in _templates(job)
        for container in objects(section(template, "spec"), "initContainers")
    )


def grace_seconds(job: Object) -> int:
    """Return how long the job's pods may take to end once they are told to, the longest of them."""
    asked = [section(template, "spec").get("terminationGracePeriodSeconds") for template in _templates(job)]
    return max((seconds for seconds in asked if isinstance(seconds, int)), default=DEFAULT_GRACE_SECONDS)


def _templates(job: Object) -> list[Object]:
    return [section(spec, "template") for spec in replica_specs(job).values()]


def is_training_job(obj: Object) -> bool:
    """Return whether the object is a job that has replicas."""
    return bool(replica_specs(obj))


def true_condition(job: Object) -> Mapping[str, Any]:
    """Return the last condition that holds; empty before the first."""
    conditions = status_of(job).get("conditions") or ()
    holding = [c for c in conditions if c.get("status") == "True"]
    return holding[-1] if holding else {}


def condition(job: Object, kind: str) -> Mapping[str, Any] | None:
    """Return the condition of that type if it holds."""
    for entry in status_of(job).get("conditions") or ():
        if entry.get("type") == kind and entry.get("status") == "True":
            return dict(entry)
    return None


def is_finished(job: Object) -> bool:
    """Return whether the job has succeeded or failed."""
    return condition(job, "Succeeded") is not None or condition(job, "Failed") is not None


def replica_name(pod: Object) -> str:
    """Return `worker-0` for a replica's pod, the pod's name for any other."""
    labels = section(pod["metadata"], "labels")
    if LABEL_REPLICA_TYPE in labels and LABEL_REPLICA_INDEX in labels:
        return f"{labels[LABEL_REPLICA_TYPE]}-{labels[LABEL_REPLICA_INDEX]}"
    return str(pod["metadata"]["name"])


def replica(pod: Object) -> Replica:
    """Return how the pod is doing, with the reason when it waits or failed."""
    status = status_of(pod)
    state, detail, restarts = str(status.get("phase", "Pending")), "", 0
    for entry in status.get("conditions") or ():
        if entry["type"] == "PodScheduled" and entry["status"] == "False":
            detail = entry.get("message", "")
    scheduler = str(section(pod, "spec").get("schedulerName") or "")
    if state == "Pending" and not detail and scheduler not in ("", DEFAULT_SCHEDULER) and not _is_placed(pod):
        detail = f"no scheduler of the name {scheduler} has placed the pod yet"
    if pod["metadata"].get("deletionTimestamp"):
        state = "Terminating"
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        restarts += int(entry.get("restartCount", 0))
        waiting = section(entry, "state", "waiting")
        ended = section(entry, "state", "terminated")
        if waiting.get("reason") and waiting["reason"] not in ("PodInitializing", "ContainerCreating"):
            state, detail = waiting["reason"], waiting.get("message", "")
        elif ended.get("exitCode"):
            state, detail = f"{ended.get('reason', 'Error')} ({ended['exitCode']})", ended.get("message", "")
    return Replica(replica_name(pod), pod["metadata"]["name"], state, detail, restarts)


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts `worker-2` before `worker-10`."""
    return [
        (part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)
    ]


def longest_replica_name(job: Object) -> int:
    """Return how many characters the longest name of a replica has that the job asks for."""
    return max(
        (
            len(f"{kind.lower()}-{max(replica_count(spec) - 1, 0)}")
            for kind, spec in replica_specs(job).items()
        ),
        default=0,
    )


def replica_count(spec: object) -> int:
    """Return how many replicas a type has; one where its spec does not say."""
    count = spec.get("replicas") if isinstance(spec, Mapping) else None
    return count if isinstance(count, int) else 1


def _is_placed(pod: Object) -> bool:
    return bool(section(pod, "spec").get("nodeName"))


def rank_order(pods: Sequence[Object]) -> list[Object]:
    """Return the pods in the order of their ranks: the one in the master's role first, then by type and index."""

    def order(pod: Object) -> tuple[bool, str, int]:
        labels = labels_of(pod)
        index = labels.get(LABEL_REPLICA_INDEX, "")
        return (
            labels.get(LABEL_JOB_ROLE) != JOB_ROLE_MASTER,
            labels.get(LABEL_REPLICA_TYPE, ""),
            int(index) if index.isdigit() else 0,
        )

    return sorted(pods, key=order)


def started_instances(pod: Object, inits: Collection[str] = ()) -> list[tuple[str, int]]:
    """Return (container, restart count) of every instance whose log exists; of init containers, those in `inits`."""
    status = section(pod, "status")
    entries = [
        *(entry for entry in objects(status, "initContainerStatuses") if entry["name"] in inits),
        *objects(status, "containerStatuses"),
    ]
    return [
        (entry["name"], int(entry.get("restartCount", 0)))
        for entry in entries
        if not {"running", "terminated"}.isdisjoint(section(entry, "state"))
    ]


def first_failure(pods: Sequence[Object]) -> tuple[Object, Mapping[str, Any]] | None:
    """Return the pod that failed first and how its container ended.

    The first by finish time is the cause; the others mostly fail because their peer is gone. Times are in whole
    seconds: within one, the pod whose status was written first counts as first (KEP-5504, comparable
    resourceVersions).
    """
    ended: list[tuple[str, int, int, Object, Mapping[str, Any]]] = []
    for position, pod in enumerate(rank_order(pods)):
        status = status_of(pod)
        for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            for where in ("state", "lastState"):
                terminated = section(entry, where).get("terminated")
                if terminated and terminated.get("exitCode"):
                    ended.append(
                        (
                            terminated.get("finishedAt") or "",
                            _written(pod),
                            position,
                            pod,
                            {**terminated, "container": entry["name"]},
                        )
                    )
    if not ended:
        return None
    *_, pod, terminated = min(ended, key=lambda e: e[:3])
    return pod, terminated


def _written(pod: Object) -> int:
    version = str(pod["metadata"].get("resourceVersion") or "")
    return int(version) if version.isdigit() else 0


def joined_by_type(names: Iterable[str]) -> str:
    """Return the names of replicas in short, those of each type together."""
    by_type: dict[str, list[str]] = {}
    for name in names:
        by_type.setdefault(name.rpartition("-")[0], []).append(name)
    return ", ".join(map(joined_names, by_type.values()))


def joined_names(names: Sequence[str]) -> str:
    """Return the names of replicas of one type in short: `worker-0..7,12`, or `worker ×20` where they are scattered."""
    kind = names[0].rpartition("-")[0]
    tails = [name.rpartition("-")[2] for name in names]
    if not kind or not all(tail.isdigit() for tail in tails):
        return ",".join(names)
    ranges: list[list[int]] = []
    for number in sorted(map(int, tails)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(ranges) > _RANGES:
        return f"{kind} ×{len(names)}"
    return f"{kind}-" + ",".join(str(a) if a == b else f"{a}..{b}" for a, b in ranges)
