"""What pods take of the disk: who is over a limit, and who goes first when the disk is full. Pure.

Messages and order as in the kubelet's eviction manager (pkg/kubelet/eviction, v1.33). A container's use is what it
wrote to its root and its logs; emptyDirs on disk count for the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.amounts import limits_of, requests_of
from trainshed.cluster.node.pod.observed import Verdict
from trainshed.cluster.node.volumes.empty_dir import IN_MEMORY
from trainshed.cluster.node.volumes.registry import declared
from trainshed.kube.meta.objects import Object, uid_of
from trainshed.kube.meta.pods import all_containers
from trainshed.kube.meta.quantity import canonical, parse

RESOURCE = "ephemeral-storage"
EVICTED = "Evicted"
CRITICAL = 2_000_000_000
"""The least priority of pods that a kubelet does not evict (SystemCriticalPriority)."""
_UNITS = ("", "Ki", "Mi", "Gi", "Ti")
_GRACE_SECONDS = 1.0  # immediateEvictionGracePeriodSeconds


class Use(msgspec.Struct, frozen=True):
    """Bytes on disk of each container of a pod, and of each of its emptyDirs there."""

    containers: Mapping[str, int] = {}
    volumes: Mapping[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.containers.values()) + sum(self.volumes.values())


def is_bounded(pod: Object) -> bool:
    """Return whether the pod has any limit of what it may write."""
    of_containers = any(limits_of(each).get(RESOURCE) for each in all_containers(pod))
    return of_containers or any(limit for _, limit in _empty_dirs(pod))


def places(paths: NodePaths, pod: Object) -> dict[str, list[str]]:
    """Return the directories of each container and emptyDir: `c/<name>` and `v/<name>`."""
    uid = uid_of(pod)
    out = {}
    for container in all_containers(pod):
        name = container["name"]
        out[f"c/{name}"] = [str(paths.container(uid, name)), str(paths.logs(uid, name))]
    for name, _ in _empty_dirs(pod):
        out[f"v/{name}"] = [str(paths.volume(uid, name))]
    return out


def kept_on_disk(paths: NodePaths, pod: Object) -> list[Path]:
    """Return the pod's emptyDirs on disk."""
    return [paths.volume(uid_of(pod), name) for name, _ in _empty_dirs(pod)]


def use_of(found: Mapping[str, list[str]], sizes: Mapping[str, int]) -> Use:
    """Return what the directories that `places` found take, `sizes` by path."""
    sums = {key: sum(sizes.get(path, 0) for path in paths) for key, paths in found.items()}
    return Use(
        {key[2:]: size for key, size in sums.items() if key.startswith("c/")},
        {key[2:]: size for key, size in sums.items() if key.startswith("v/")},
    )


def over_limit(pod: Object, use: Use) -> Verdict | None:
    """Return why the pod is evicted for what it wrote, if it is."""
    for name, limit in _empty_dirs(pod):
        if limit and use.volumes.get(name, 0) > parse(limit):
            return _verdict(f'Usage of EmptyDir volume "{name}" exceeds the limit "{canonical(limit)}". ')
    limits = {each["name"]: limits_of(each).get(RESOURCE) for each in all_containers(pod)}
    known = [parse(limit) for limit in limits.values() if limit]
    if known and all(limits.values()) and use.total > sum(known):
        text = canonical(str(sum(known)))
        if len(known) == 1:
            text = canonical(next(limit for limit in limits.values() if limit))
        return _verdict(f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. ")
    for name, most in limits.items():
        if most and use.containers.get(name, 0) > parse(most):
            return _verdict(
                f'Container {name} exceeded its local ephemeral storage limit "{canonical(most)}". '
            )
    return None


def first_to_go(pods: Sequence[tuple[Object, Use]], resource: str = RESOURCE) -> tuple[Object, Use] | None:
    """Return the pod that is evicted when the disk, or memory, is full: over its requests, of low priority, with much.

    None of those that the cluster itself needs (system-cluster-critical).
    """

    def turn(one: tuple[Object, Use]) -> tuple[bool, int, Decimal]:
        pod, use = one
        asked = _asked(pod, resource)
        return use.total <= asked, int(pod["spec"].get("priority") or 0), asked - use.total

    known = [one for one in pods if int(one[0]["spec"].get("priority") or 0) < CRITICAL]
    return min(known, key=turn, default=None)


def low_on(pod: Object, use: Use, threshold: int, available: int, resource: str = RESOURCE) -> Verdict:
    """Return why the pod is evicted: the node has `available` bytes left, less than `threshold`."""
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {_binary(threshold)}, available: {available // 1024}Ki. "
    for container in all_containers(pod):
        name, asked = container["name"], requests_of(container).get(resource) or "0"
        used = use.containers.get(name, 0)
        if used > parse(asked):
            text += (
                f"Container {name} was using {used // 1024}Ki, request is {canonical(asked)}, "
                f"has larger consumption of {resource}. "
            )
    return msgspec.structs.replace(_verdict(text), disruption="TerminationByKubelet")


def _binary(amount: int) -> str:
    """Return bytes in the largest unit that leaves no fraction."""
    power = 0
    while amount and amount % 1024 == 0 and power < len(_UNITS) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_UNITS[power]}"


def _verdict(text: str) -> Verdict:
    return Verdict(EVICTED, text, grace=_GRACE_SECONDS)


def _asked(pod: Object, resource: str) -> Decimal:
    return sum((parse(requests_of(each).get(resource) or 0) for each in all_containers(pod)), Decimal(0))


def _empty_dirs(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield (name, size limit) of the emptyDirs on disk; an empty limit is none."""
    for volume in declared(pod):
        if volume.type.field == "emptyDir" and volume.source.get("medium") != IN_MEMORY:
            yield volume.name, str(volume.source.get("sizeLimit") or "")
