"""What a Deployment's status says. Pure.

Source: apps/v1 DeploymentStatus, and "Deployment status" in the Kubernetes documentation, which
`kubectl rollout status` reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.cluster.controllers.workloads.replicafailure import REPLICA_FAILURE
from trainshed.cluster.controllers.workloads.rollout import bounds, count, replicas
from trainshed.kube.meta.objects import Object, condition, status_of, unchanged_since
from trainshed.kube.meta.times import format_time, parse_time

COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
_NEVER = 2147483647
"""`progressDeadlineSeconds` of those who want none."""


def deployment_status(
    deployment: Object,
    new: Object | None,
    old: Sequence[Object],
    now: float,
    *,
    creating: str = "",
    rescaled: bool = False,
) -> tuple[Object, float | None]:
    """Return the status, and in how many seconds the rollout times out unless it progresses.

    Args:
        creating: the name of the set that is about to be made.
        rescaled: whether the number of replicas has just changed: that is neither progress nor the lack of it.
    """
    every = [*old, *([new] if new else [])]
    before = status_of(deployment)
    desired = int(deployment["spec"].get("replicas", 1))
    available = sum(count(rs, "availableReplicas") for rs in every)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(count(rs, "replicas") for rs in every),
        "updatedReplicas": count(new, "replicas") if new else 0,
        "readyReplicas": sum(count(rs, "readyReplicas") for rs in every),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(replicas(rs) for rs in every) - available, 0),
        "collisionCount": before.get("collisionCount", 0),
    }
    enough = available >= desired - bounds(deployment["spec"])[1]
    stamp = format_time(now)
    is_available = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": f"MinimumReplicas{'Available' if enough else 'Unavailable'}",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }
    conditions = list(before.get("conditions") or ())
    limit = int(deployment["spec"].get("progressDeadlineSeconds") or _NEVER)
    if limit == _NEVER:
        conditions = _without(conditions, "Progressing")
    else:
        conditions = _prepared(conditions, bool(deployment["spec"].get("paused")), new, creating, stamp)
    conditions = _with(conditions, is_available, stamp)
    timeout = None
    if creating and limit != _NEVER:
        timeout = float(limit)
    elif limit != _NEVER and not rescaled and not deployment["spec"].get("paused"):
        conditions, timeout = _progressed(deployment, new, counts, conditions, now)
    conditions = _with_failure(conditions, [*([new] if new else []), *old])
    status: dict[str, Any] = {name: value for name, value in counts.items() if value}
    return {**status, "conditions": conditions}, timeout


def is_complete(deployment: Object, counts: Object) -> bool:
    """Return whether all replicas that are wanted, and no others, are new and available."""
    desired = int(deployment["spec"].get("replicas", 1))
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return all((counts.get(name) or 0) == desired for name in names)


def _prepared(
    conditions: list[Object], paused: bool, new: Object | None, creating: str, stamp: str
) -> list[Object]:
    """Return the conditions with what has been done: paused, resumed, a set made or found."""
    previous = next((c for c in conditions if c["type"] == "Progressing"), None)
    reason = previous.get("reason") if previous else ""
    if paused:
        # One that timed out stays so.
        told = _condition("Unknown", PAUSED, "Deployment is paused")
        return conditions if reason == TIMED_OUT else _with(conditions, told, stamp)
    if reason == PAUSED:
        told = _condition("Unknown", "DeploymentResumed", "Deployment is resumed")
        conditions = _with(conditions, told, stamp)
    if creating:
        told = _condition("True", "NewReplicaSetCreated", f'Created new replica set "{creating}"')
        return _with(conditions, told, stamp)
    if previous is None and new is not None:
        found = f'Found new replica set "{new["metadata"]["name"]}"'
        return _with(conditions, _condition("True", "FoundNewReplicaSet", found), stamp)
    return conditions


def _progressed(
    deployment: Object, new: Object | None, counts: Object, conditions: list[Object], now: float
) -> tuple[list[Object], float | None]:
    """Return the conditions of a rollout that goes on, is over or hangs, and the seconds that it has left."""
    stamp = format_time(now)
    deadline = float(deployment["spec"]["progressDeadlineSeconds"])
    previous = next((c for c in conditions if c["type"] == "Progressing"), None)
    # Once rolled out, a pod that restarts later is no new rollout.
    if previous and previous.get("reason") == COMPLETE and counts["replicas"] == counts["updatedReplicas"]:
        return conditions, None
    name = (new or deployment)["metadata"]["name"]
    what = f'ReplicaSet "{name}"' if new else f'Deployment "{name}"'
    if is_complete(deployment, counts):
        done = _condition("True", COMPLETE, f"{what} has successfully progressed.")
        return _with(conditions, done, stamp), None
    if _moved(status_of(deployment), counts):
        moves = _condition("True", "ReplicaSetUpdated", f"{what} is progressing.")
        return _with(conditions, moves, stamp, renew=True), deadline
    if previous is None or previous.get("reason") in (COMPLETE, TIMED_OUT):
        return conditions, None
    left = parse_time(previous["lastUpdateTime"]) + deadline - now
    if left > 0:
        return conditions, left
    return _with(
        conditions, _condition("False", TIMED_OUT, f"{what} has timed out progressing."), stamp
    ), None


def _with_failure(conditions: list[Object], sets: Sequence[Object]) -> list[Object]:
    """Return the conditions with that of the first set whose pods could not be made or deleted, if there is one."""
    failed = next((found for rs in sets if (found := condition(rs, REPLICA_FAILURE))), None)
    if failed is None:
        return _without(conditions, REPLICA_FAILURE)
    since = failed.get("lastTransitionTime")
    previous = next((c for c in conditions if c["type"] == REPLICA_FAILURE), None)
    if previous and all(previous.get(key) == failed.get(key) for key in ("status", "reason")):
        return conditions
    return [
        *_without(conditions, REPLICA_FAILURE),
        {**failed, "lastUpdateTime": since, "lastTransitionTime": since},
    ]


def _moved(before: Object, counts: Object) -> bool:
    """Return whether the rollout got any further since the last status."""
    grown = any(
        counts[name] > (before.get(name) or 0)
        for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    old_before = (before.get("replicas") or 0) - (before.get("updatedReplicas") or 0)
    return grown or counts["replicas"] - counts["updatedReplicas"] < old_before


def _condition(status: str, reason: str, message: str) -> Object:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def _with(conditions: list[Object], new: Object, stamp: str, *, renew: bool = False) -> list[Object]:
    """Return the conditions with the new one, the last of them when its status or reason has changed.

    The time of the transition changes with the status only, that of the update also with the reason and progress.
    """
    previous = next((c for c in conditions if c["type"] == new["type"]), None)
    same = previous is not None and all(previous.get(key) == new[key] for key in ("status", "reason"))
    if same and not renew:
        return conditions
    since = unchanged_since(previous, new["status"], stamp)
    timed = {**new, "lastUpdateTime": stamp, "lastTransitionTime": since}
    return [*_without(conditions, new["type"]), timed]


def _without(conditions: list[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition["type"] != kind]
