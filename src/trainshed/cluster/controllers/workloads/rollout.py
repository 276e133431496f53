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
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
"""Annotation on a ReplicaSet that was rolled back to: the revisions that it had before."""
DESIRED, MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
"""Annotations on ReplicaSets: what the Deployment asked for, surge included, when they were scaled last."""
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
    if spec.get("paused") or is_rescaled(deployment, [*old, *([new] if new else [])]):
        return _resized(deployment, new, old)
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
    least = desired - unavailable
    new_missing = have_new - (count(new, "availableReplicas") if new else 0)
    removable = total - least - max(new_missing, 0)
    left = {rs["metadata"]["name"]: replicas(rs) for rs in old}
    if removable > 0:
        oldest = sorted(old, key=lambda rs: str(rs["metadata"]["creationTimestamp"]))
        # Replicas that never became available hold nothing up: they go first.
        for rs in oldest:
            drop = min(max(replicas(rs) - count(rs, "availableReplicas"), 0), removable)
            removable -= drop
            left[rs["metadata"]["name"]] -= drop
        spare = sum(count(rs, "availableReplicas") for rs in (*old, *([new] if new else []))) - least
        for rs in oldest:
            drop = min(left[rs["metadata"]["name"]], max(spare, 0))
            spare -= drop
            left[rs["metadata"]["name"]] -= drop
    return {**result, **left}


def is_rescaled(deployment: Object, sets: Sequence[Object]) -> bool:
    """Return whether the Deployment asks for another number of replicas than when its sets were scaled last."""
    desired = int(deployment["spec"].get("replicas", 1))
    return any(replicas(rs) and _noted(rs, DESIRED) not in (None, desired) for rs in sets)


def scale_notes(deployment: Object) -> dict[str, str]:
    """Return the annotations of a set that is scaled."""
    desired = int(deployment["spec"].get("replicas", 1))
    return {DESIRED: str(desired), MOST: str(desired + bounds(deployment["spec"])[0])}


def _resized(deployment: Object, new: Object | None, old: Sequence[Object]) -> dict[str, int]:
    """Return the next counts where nothing is rolled out: what is added or taken away is shared in proportion."""
    spec = deployment["spec"]
    desired = int(spec.get("replicas", 1))
    active = [rs for rs in (*([new] if new else []), *old) if replicas(rs)]
    if len(active) <= 1:
        newest = max(old, key=lambda rs: str(rs["metadata"]["creationTimestamp"]), default=None)
        target = active[0] if active else new or newest
        return {target["metadata"]["name"]: desired} if target else {}
    if new and replicas(new) == desired == _noted(new, DESIRED) == count(new, "availableReplicas"):
        return {rs["metadata"]["name"]: 0 for rs in old}
    if section(spec, "strategy").get("type") == "Recreate":
        return {}
    most = desired + bounds(spec)[0] if desired else 0
    change = most - sum(replicas(rs) for rs in active)
    # The largest first; of two alike the newer when there is more, the older when there is less.
    active.sort(key=lambda rs: str(rs["metadata"]["creationTimestamp"]), reverse=change > 0)
    active.sort(key=replicas, reverse=True)
    shares: dict[str, int] = {}
    left = change
    for rs in active:
        share = _share(deployment, rs) if left else 0
        share = min(share, left) if change > 0 else max(share, left)
        left -= share
        shares[rs["metadata"]["name"]] = replicas(rs) + share
    largest = active[0]["metadata"]["name"]
    shares[largest] = max(shares[largest] + left, 0)
    return shares


def _share(deployment: Object, replica_set: Object) -> int:
    """Return by how much a set grows or shrinks when it keeps its part of the whole."""
    spec = deployment["spec"]
    have, desired = replicas(replica_set), int(spec.get("replicas", 1))
    if not desired:
        return -have
    before = _noted(replica_set, MOST) or count(deployment, "replicas")
    if not before:
        return 0
    return math.floor(have * (desired + bounds(spec)[0]) / before + 0.5) - have


def _noted(replica_set: Object, annotation: str) -> int | None:
    value = section(replica_set["metadata"], "annotations").get(annotation, "")
    return int(value) if value.isdigit() else None


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
