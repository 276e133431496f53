"""What a node and its pods use, as a kubelet says at `/stats/summary` (k8s.io/kubelet/pkg/apis/stats/v1alpha1)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.node.hardware import memory_bytes
from trainshed.cluster.node.metrics import ContainerUse, PodUse
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.diskuse import places
from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, status_of, uid_of
from trainshed.kube.meta.times import format_time


class Disk(msgspec.Struct, frozen=True):
    """A file system: bytes and inodes, in all and free."""

    capacity: int
    available: int
    inodes: int
    inodes_free: int

    @classmethod
    def of(cls, path: Path) -> Disk:
        """Return the one of a path. Raises OSError."""
        found = os.statvfs(path)
        return cls(
            found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files, found.f_ffree
        )

    def stats(self, used: int, now: float) -> Object:
        """Return `FsStats` of what takes `used` bytes of it."""
        return {
            "time": format_time(now),
            "availableBytes": self.available,
            "capacityBytes": self.capacity,
            "usedBytes": used,
            "inodesFree": self.inodes_free,
            "inodes": self.inodes,
        }


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary is made of. `sizes` are bytes of directories that pods write to, `images` those of all images."""

    node: str
    started: float
    whole: ContainerUse
    pods: Sequence[tuple[PodWorker, PodUse]]
    sizes: Mapping[str, int]
    disk: Disk
    images: int
    now: float


def summary(measured: Measured, paths: NodePaths) -> Object:
    """Return the `Summary` of a node."""
    now, disk = measured.now, measured.disk
    total = memory_bytes()
    memory = _memory(measured.whole, now)
    return {
        "node": {
            "nodeName": measured.node,
            "startTime": format_time(measured.started),
            "cpu": _cpu(measured.whole, now),
            "memory": {**memory, "availableBytes": max(0, total - measured.whole.memory_bytes)},
            "fs": disk.stats(disk.capacity - disk.available, now),
            "runtime": {"imageFs": disk.stats(measured.images, now)},
        },
        "pods": [_pod(worker.pod, use, measured, paths) for worker, use in measured.pods],
    }


def directories(paths: NodePaths, pods: Sequence[Object]) -> list[str]:
    """Return the directories whose sizes a summary of the pods needs."""
    return [path for pod in pods for each in places(paths, pod).values() for path in each]


def _pod(pod: Object, use: PodUse, measured: Measured, paths: NodePaths) -> Object:
    now, disk = measured.now, measured.disk
    found = {key: [measured.sizes.get(path, 0) for path in each] for key, each in places(paths, pod).items()}
    started = status_of(pod).get("startTime") or format_time(measured.started)
    statuses = {one["name"]: one for one in status_of(pod).get("containerStatuses") or ()}
    containers = []
    for name, one in use.containers.items():
        running = section(statuses, name, "state", "running")
        root, logs = found.get(f"c/{name}", [0, 0])
        containers.append(
            {
                "name": name,
                "startTime": running.get("startedAt", started),
                "cpu": _cpu(one, now),
                "memory": _memory(one, now),
                "rootfs": disk.stats(root, now),
                "logs": disk.stats(logs, now),
            }
        )
    volumes = [
        {"name": key[2:], **disk.stats(sum(sizes), now)}
        for key, sizes in found.items()
        if key.startswith("v/")
    ]
    out = {
        "podRef": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
        "startTime": started,
        "containers": containers,
        "cpu": _cpu(use.whole, now),
        "memory": _memory(use.whole, now),
        "volume": volumes,
        "ephemeral-storage": disk.stats(sum(map(sum, found.values())), now),
    }
    if use.network is not None:
        counts = {"name": "eth0", "rxBytes": use.network[0], "txBytes": use.network[1]}
        out["network"] = {"time": format_time(now), **counts, "interfaces": [counts]}
    return out


def _cpu(use: ContainerUse, now: float) -> Object:
    return {
        "time": format_time(now),
        "usageNanoCores": round(use.cores * 1e9),
        "usageCoreNanoSeconds": round(use.cpu_seconds * 1e9),
    }


def _memory(use: ContainerUse, now: float) -> Object:
    return {
        "time": format_time(now),
        "usageBytes": use.memory_bytes,
        "workingSetBytes": use.memory_bytes,
        "rssBytes": use.rss_bytes or use.memory_bytes,
    }
