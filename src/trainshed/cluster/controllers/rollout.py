"""Deployment rollouts as arithmetic: how far each ReplicaSet is scaled next, and what the status says. Pure.

Rules of the Deployment API reference (apps/v1 RollingUpdateDeployment): never more than replicas + maxSurge
pods, never fewer than replicas - maxUnavailable available ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.resources import Object

HASH_LABEL = "pod-template-hash"
"""Written by the Deployment controller on ReplicaSets, their selectors and pods; read by `kubectl rollout`."""
REVISION = "deployment.kubernetes.io/revision"
"""Annotation on Deployment and ReplicaSets; read by `kubectl rollout history`."""
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Object) -> str:
    """Return ten characters that stand for the pod template; equal templates have equal hashes."""
    digest = int.from_bytes(hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()[:8], "big")
    out = ""
    for _ in range(10):
        digest, index = divmod(digest, len(_ALPHABET))
        out += _ALPHABET[index]
    return out


def absolute(value: int | str, total: int, *, up: bool) -> int:
    """Return an int-or-percentage of `total`."""
    if isinstance(value, int):
        return value
    exact = total * float(value.rstrip("%")) / 100
    return math.ceil(exact) if up else math.floor(exact)


def scales(deployment: Object, new: Object | None, old: Sequence[Object]) -> dict[str, int]:
    """Return the next replica count of every ReplicaSet by name, and of the new one under the empty name
    while it does not exist."""
    spec = deployment["spec"]
    desired = int(spec.get("replicas", 1))
    if spec.get("paused"):
        return {}
    strategy = spec.get("strategy") or {}
    new_name = new["metadata"]["name"] if new else ""
    if strategy.get("type") == "Recreate":
        if any(_status(rs, "replicas") or rs["spec"].get("replicas") for rs in old):
            return {rs["metadata"]["name"]: 0 for rs in old}
        return {new_name: desired}
    rolling = strategy.get("rollingUpdate") or {}
    surge = absolute(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = absolute(rolling.get("maxUnavailable", "25%"), desired, up=False)
    if not surge and not unavailable:
        unavailable = 1
    have_new = int(new["spec"].get("replicas", 0)) if new else 0
    total = have_new + sum(int(rs["spec"].get("replicas", 0)) for rs in old)
    next_new = (
        min(desired, max(have_new, have_new + desired + surge - total)) if have_new < desired else desired
    )
    result = {new_name: next_new}
    new_missing = have_new - (_status(new, "availableReplicas") if new else 0)
    removable = total - (desired - unavailable) - max(new_missing, 0)
    for replica_set in sorted(old, key=lambda rs: _status(rs, "availableReplicas")):
        have = int(replica_set["spec"].get("replicas", 0))
        # Replicas that never became available hold nothing up: they go first and for free.
        idle = max(have - _status(replica_set, "availableReplicas"), 0)
        drop = min(have, max(removable, idle, 0))
        removable -= drop
        result[replica_set["metadata"]["name"]] = have - drop
    return result


def status(deployment: Object, new: Object | None, old: Sequence[Object], now: str) -> Object:
    """Return the Deployment's status; condition times change only with the condition."""
    every = [*old, *([new] if new else [])]
    desired = int(deployment["spec"].get("replicas", 1))
    replicas = sum(_status(rs, "replicas") for rs in every)
    available = sum(_status(rs, "availableReplicas") for rs in every)
    updated = _status(new, "replicas") if new else 0
    strategy = deployment["spec"].get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    unavailable = 0
    if strategy.get("type") != "Recreate":
        unavailable = absolute(rolling.get("maxUnavailable", "25%"), desired, up=False)
    enough = available >= desired - unavailable
    complete = updated == desired == replicas == available
    new_name = new["metadata"]["name"] if new else ""
    conditions = [
        {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        },
        {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
            "message": f'ReplicaSet "{new_name}" {"has successfully progressed" if complete else "is progressing"}.',
        },
    ]
    previous = {c["type"]: c for c in (deployment.get("status") or {}).get("conditions") or ()}
    out: dict[str, Any] = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": sum(_status(rs, "readyReplicas") for rs in every),
        "availableReplicas": available,
        "unavailableReplicas": max(max(desired, replicas) - available, 0),
        "conditions": [_timed(c, previous.get(c["type"]), now) for c in conditions],
    }
    return {name: value for name, value in out.items() if value}


def _timed(condition: Mapping[str, Any], previous: Mapping[str, Any] | None, now: str) -> Object:
    if previous and all(previous.get(k) == v for k, v in condition.items()):
        return dict(previous)
    since = now
    if previous and previous.get("status") == condition["status"]:
        since = previous.get("lastTransitionTime", now)
    return {**condition, "lastUpdateTime": now, "lastTransitionTime": since}


def _status(replica_set: Object | None, field: str) -> int:
    return int(((replica_set or {}).get("status") or {}).get(field, 0))
