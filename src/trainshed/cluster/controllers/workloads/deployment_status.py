"""What a Deployment's status says. Pure.

Source: apps/v1 DeploymentStatus, and "Deployment status" in the Kubernetes documentation, which
`kubectl rollout status` reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.cluster.controllers.workloads.rollout import bounds, count, replicas
from trainshed.kube.meta.objects import Object, status_of, unchanged_since
from trainshed.kube.meta.times import format_time, parse_time

COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
_NEVER = 2147483647
"""`progressDeadlineSeconds` of those who want none."""


def deployment_status(
    deployment: Object, new: Object | None, old: Sequence[Object], now: float
) -> tuple[Object, float | None]:
    """Return the status, and in how many seconds the rollout times out unless it progresses."""
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
    previous = {c["type"]: c for c in before.get("conditions") or ()}
    is_available = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": f"MinimumReplicas{'Available' if enough else 'Unavailable'}",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }
    progressing, timeout = _progress(deployment, new, counts, previous.get("Progressing"), now)
    conditions = list(before.get("conditions") or ())
    if progressing is None:
        conditions = _with(_without(conditions, "Progressing"), is_available, stamp)
    elif deployment["spec"].get("paused"):
        conditions = _with(_with(conditions, progressing, stamp), is_available, stamp)
    else:
        renew = _moved(before, counts)
        conditions = _with(_with(conditions, is_available, stamp), progressing, stamp, renew=renew)
    status: dict[str, Any] = {name: value for name, value in counts.items() if value}
    return {**status, "conditions": conditions}, timeout


def _progress(
    deployment: Object, new: Object | None, counts: Object, previous: Object | None, now: float
) -> tuple[Object | None, float | None]:
    spec = deployment["spec"]
    deadline = int(spec.get("progressDeadlineSeconds") or _NEVER)
    if deadline == _NEVER:
        return None, None
    if spec.get("paused"):
        if previous is not None and previous.get("reason") == TIMED_OUT:
            return _condition(previous["status"], TIMED_OUT, previous["message"]), None
        return _condition("Unknown", "DeploymentPaused", "Deployment is paused"), None
    name = new["metadata"]["name"] if new else deployment["metadata"]["name"]
    what = f'ReplicaSet "{name}"' if new else f'Deployment "{name}"'
    desired, replicas_ = int(spec.get("replicas", 1)), counts["replicas"]
    done = counts["updatedReplicas"] == desired == replicas_ == counts["availableReplicas"]
    # Once rolled out, a pod that restarts later is no new rollout.
    settled = bool(previous and previous.get("reason") == COMPLETE and f'"{name}"' in previous["message"])
    if done or (settled and replicas_ == counts["updatedReplicas"]):
        return _condition("True", COMPLETE, f"{what} has successfully progressed."), None
    waiting = _condition("True", "ReplicaSetUpdated", f"{what} is progressing.")
    overdue = _condition("False", TIMED_OUT, f"{what} has timed out progressing.")
    moved = _moved(status_of(deployment), counts)
    if previous is None or moved or f'"{name}"' not in previous["message"]:
        return waiting, float(deadline)
    if previous.get("reason") == TIMED_OUT:
        return overdue, None
    left = parse_time(previous["lastUpdateTime"]) + deadline - now
    return (waiting, left) if left > 0 else (overdue, None)


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
    """Return the conditions with the new one, the last of them when anything of it has changed.

    The time of the transition changes with the status only, that of the update also with the words and progress.
    """
    previous = next((c for c in conditions if c["type"] == new["type"]), None)
    same = previous is not None and all(previous.get(k) == v for k, v in new.items())
    if same and not renew:
        return conditions
    since = unchanged_since(previous, new["status"], stamp)
    timed = {**new, "lastUpdateTime": stamp, "lastTransitionTime": since}
    return [*_without(conditions, new["type"]), timed]


def _without(conditions: list[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition["type"] != kind]
