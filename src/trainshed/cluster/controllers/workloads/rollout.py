"""Deployment rollouts as arithmetic: how far each ReplicaSet is scaled next. Pure.

Rules of the Deployment API reference (apps/v1 RollingUpdateDeployment): never more than replicas + maxSurge
pods, never fewer than replicas - maxUnavailable available ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import msgspec

from trainshed.kube.meta.names import SUFFIX_ALPHABET
from trainshed.kube.meta.objects import Object, metadata_of, section, status_of

HASH_LABEL = "pod-template-hash"
"""Written by the Deployment controller on ReplicaSets, their selectors and pods; read by `kubectl rollout`."""
REVISION = "deployment.kubernetes.io/revision"
"""Annotation on Deployment and ReplicaSets; read by `kubectl rollout history`."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return ten characters that stand for the pod template; `collisions` picks another ten."""
    text = msgspec.json.encode([template, collisions] if collisions else template, order="sorted")
    digest = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    out = ""
    for _ in range(10):
        digest, index = divmod(digest, len(SUFFIX_ALPHABET))
        out += SUFFIX_ALPHABET[index]
    return out


def new_set(deployment: Object, sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet of the current template: compared whole, whatever made its hash; the oldest of several."""
    wanted = _plain(deployment["spec"]["template"])
    found = [rs for rs in sets if _plain(rs["spec"]["template"]) == wanted]
    return min(found, key=lambda rs: str(rs["metadata"]["creationTimestamp"]), default=None)


def _plain(template: Object) -> Object:
    metadata = dict(metadata_of(template))
    labels = {k: v for k, v in (metadata.pop("labels", None) or {}).items() if k != HASH_LABEL}
    metadata = {k: v for k, v in metadata.items() if v}
    return {"labels": labels, "metadata": metadata, "spec": template.get("spec")}


def absolute(value: int | str, total: int, *, up: bool) -> int:
    """Return an int-or-percentage of `total`."""
    if isinstance(value, int):
        return value
    exact = total * int(value.rstrip("%")) / 100
    return math.ceil(exact) if up else math.floor(exact)


def bounds(spec: Object) -> tuple[int, int]:
    """Return how many pods may exist above, and be missing below, the desired count during a rollout.

    Recreate ends all pods, and says so: none may be missing.
    """
    desired = int(spec.get("replicas", 1))
    strategy = section(spec, "strategy")
    if strategy.get("type") == "Recreate":
        return 0, 0
    rolling = section(strategy, "rollingUpdate")
    surge = absolute(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = absolute(rolling.get("maxUnavailable", "25%"), desired, up=False)
    if not surge and not unavailable:
        unavailable = 1  # percentages that round to nothing must not stop the rollout
    return surge, unavailable


def scales(
    deployment: Object, new: Object | None, old: Sequence[Object], *, old_pods: bool = False
) -> dict[str, int]:
    """Return the next replica count of ReplicaSets by name, and of the new one under the empty name while it
    does not exist.

    Args:
        old_pods: whether pods of old sets are still there, ending ones too; Recreate waits for them.
    """
    spec = deployment["spec"]
    desired = int(spec.get("replicas", 1))
    if spec.get("paused"):
        return _paused(desired, new, old)
    new_name = new["metadata"]["name"] if new else ""
    if section(spec, "strategy").get("type") == "Recreate":
        if old_pods or any(count(rs, "replicas") or replicas(rs) for rs in old):
            return {rs["metadata"]["name"]: 0 for rs in old}
        return {new_name: desired}
    surge, unavailable = bounds(spec)
    have_new = replicas(new) if new else 0
    total = have_new + sum(replicas(rs) for rs in old)
    room = max(desired + surge - total, 0)
    result = {new_name: min(desired, have_new + room)}
    new_missing = have_new - (count(new, "availableReplicas") if new else 0)
    removable = total - (desired - unavailable) - max(new_missing, 0)
    for replica_set in sorted(old, key=lambda rs: count(rs, "availableReplicas")):
        have = replicas(replica_set)
        # Replicas that never became available hold nothing up: they go first and for free.
        idle = max(have - count(replica_set, "availableReplicas"), 0)
        drop = min(have, max(removable, idle, 0))
        removable -= drop
        result[replica_set["metadata"]["name"]] = have - drop
    return result


def _paused(desired: int, new: Object | None, old: Sequence[Object]) -> dict[str, int]:
    """A paused Deployment rolls nothing out, but is still scaled when only one of its sets has replicas."""
    active = [rs for rs in (*old, *([new] if new else [])) if replicas(rs)]
    if len(active) > 1:
        return {}
    target = active[0] if active else new
    return {target["metadata"]["name"]: desired} if target else {}


def replicas(replica_set: Object) -> int:
    """Return how many pods the set asks for."""
    return int(replica_set["spec"].get("replicas", 1))


def count(replica_set: Object, field: str) -> int:
    """Return a count of the set's status."""
    return int(status_of(replica_set).get(field) or 0)


def revision(obj: Object) -> int:
    """Return the rollout revision of a Deployment or ReplicaSet, 0 before it has one."""
    value = section(obj["metadata"], "annotations").get(REVISION, "0")
    return int(value) if value.isdigit() else 0
