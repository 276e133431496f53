"""The condition of a ReplicaSet or ReplicationController whose pods could not be made or deleted. Pure.

Source: apps/v1 ReplicaSetCondition. As recorded with kube-controller-manager 1.33, it keeps the words of the first
failure, and goes once nothing is left to do.
"""

from __future__ import annotations

from trainshed.kube.meta.objects import Object, condition, status_of
from trainshed.kube.meta.times import format_time

REPLICA_FAILURE = "ReplicaFailure"


def with_failure(replica_set: Object, missing: int, message: str, now: float) -> Object | None:
    """Return the status with the failure, None where it is there. `missing` is negative when pods are too many."""
    if condition(replica_set, REPLICA_FAILURE) is not None:
        return None
    status = status_of(replica_set)
    failed = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "FailedDelete" if missing < 0 else "FailedCreate",
        "message": message,
    }
    return {**status, "conditions": [*(status.get("conditions") or ()), failed]}


def conditions_of(replica_set: Object, missing: int) -> list[Object]:
    """Return the conditions to go on with: a failure stays for as long as pods are missing or too many."""
    found: list[Object] = status_of(replica_set).get("conditions") or []
    return [c for c in found if missing or c.get("type") != REPLICA_FAILURE]
