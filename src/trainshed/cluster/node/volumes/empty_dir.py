"""emptyDir volumes: a directory that lives as long as the pod, on disk or in memory.

Memory is a file system of its own, as large as the kubelet makes it: what the pod may have of memory, or `sizeLimit` if
that is less (SizeMemoryBackedVolumes). On disk the node measures it, and evicts the pod that is over its `sizeLimit`.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from trainshed.cluster.node.volumes.volume import DirectoryVolume, Setup, Source, Volume
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import main_containers
from trainshed.kube.meta.quantity import parse

MODE = 0o777
"""As the kubelet: any user of the container may write. The directories above are private to us."""
IN_MEMORY = "Memory"


class EmptyDirVolume(DirectoryVolume):
    """Also what a volume without any source is."""

    field = "emptyDir"

    def unsupported(self, source: Source) -> Iterable[tuple[str, str]]:
        if str(source.get("medium", "")).startswith("HugePages"):
            yield "medium", "huge pages are not offered: the volume is on disk"

    def directory(self, setup: Setup) -> Volume:
        setup.disk.mkdir(parents=True, exist_ok=True, mode=0o700)
        setup.disk.chmod(MODE)
        if setup.source.get("medium") != IN_MEMORY:
            return Volume(setup.disk, owned=True)
        machine = setup.node.allocatable.get("memory")
        return Volume(setup.disk, memory_bytes=size_in_memory(setup.pod, setup.source, machine))


def size_in_memory(pod: Object, source: Source, machine: str | None) -> int:
    """Return how many bytes a volume in memory may have; `machine` is the node's allocatable memory."""
    bounds = [parse(machine)] if machine else []
    limits = [parse(section(each, "resources", "limits").get("memory") or 0) for each in main_containers(pod)]
    if all(limits):
        bounds.append(sum(limits, Decimal(0)))
    if limit := source.get("sizeLimit"):
        bounds.append(parse(limit))
    positive = [int(each) for each in bounds if each >= 1]
    return min(positive, default=1 << 30)
