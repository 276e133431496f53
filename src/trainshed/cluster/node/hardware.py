"""What this machine offers to pods, and the labels that every node has."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from trainshed.cluster.node.devices import gpu

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


def known_labels(name: str) -> dict[str, str]:
    """Return the labels of a node of that name on this machine (kubernetes.io, Well-Known Labels)."""
    arch = ARCHITECTURES.get(platform.machine(), platform.machine())
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        "node-role.kubernetes.io/control-plane": "",
    }


def capacity(directory: Path, *, max_pods: int, gpus: int) -> dict[str, str]:
    """Return what this machine offers. `directory` is on the file system that pods write to."""
    disk = os.statvfs(directory)
    out = {
        "cpu": str(cpu_count()),
        "memory": f"{memory_bytes() // 1024}Ki",
        "pods": str(max_pods),
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
    }
    if gpus:
        out[gpu.RESOURCE] = str(gpus)
    return out


def cpu_count() -> int:
    """Return the CPUs that this process may use, a cgroup's quota included; at least 1."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return count


def memory_bytes() -> int:
    """Return the machine's memory, or the cgroup's limit when that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit != "max":
            total = min(total, int(limit))
    except (OSError, ValueError):
        pass
    return total
