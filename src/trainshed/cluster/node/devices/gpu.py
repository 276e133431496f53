"""NVIDIA GPUs: which there are, which container gets which, and how it sees them.

There is no device plugin: device files of the host are handed in, and CUDA is told to use no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import init_containers, is_sidecar, main_containers

RESOURCE = "nvidia.com/gpu"
SHARED_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Needed by every CUDA program whatever its GPU."""
_DEVICE = re.compile(r"^nvidia([0-9]+)$")


class NotEnoughDevices(Exception):
    """More GPUs are asked for than are free: an UnexpectedAdmissionError."""


def detect(directory: Path = Path("/dev")) -> tuple[int, ...]:
    """Return the indexes of the GPUs, from `/dev/nvidia<n>`."""
    found = (_DEVICE.match(entry.name) for entry in directory.glob("nvidia[0-9]*"))
    return tuple(sorted(int(match[1]) for match in found if match))


def requested(container: Object) -> int:
    """Return how many GPUs the container asks for."""
    resources = section(container, "resources")
    for amounts in (section(resources, "limits"), section(resources, "requests")):
        if RESOURCE in amounts:
            return int(quantity.parse(amounts[RESOURCE]))
    return 0


def allocate(pod: Object, present: Iterable[int], taken: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """Return the device indexes of each container that asks for some.

    Lowest free indexes first. Init containers run before the others, so their devices are used again by the
    main containers; a sidecar keeps its own. Raises NotEnoughDevices.
    """
    free = [index for index in present if index not in set(taken)]
    out: dict[str, tuple[int, ...]] = {}
    reusable: list[int] = []
    for container in init_containers(pod):
        chosen = _take(container, reusable if not is_sidecar(container) else [], free)
        if chosen:
            out[container["name"]] = chosen
            if not is_sidecar(container):
                reusable = sorted({*reusable, *chosen})
    for container in main_containers(pod):
        chosen = _take(container, reusable, free)
        reusable = [index for index in reusable if index not in chosen]
        if chosen:
            out[container["name"]] = chosen
    return out


def environment(indexes: Iterable[int]) -> dict[str, str]:
    """Return the variables by which CUDA and NVIDIA's tools see these GPUs and no others."""
    text = ",".join(map(str, indexes))
    return {"NVIDIA_VISIBLE_DEVICES": text or "void", "CUDA_VISIBLE_DEVICES": text}


def device_files(indexes: Iterable[int], directory: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the device files that a container with these GPUs needs."""
    names = [f"nvidia{index}" for index in indexes]
    if not names:
        return ()
    return tuple(str(directory / n) for n in (*names, *SHARED_DEVICES) if (directory / n).exists())


def save(path: Path, allocation: Mapping[str, tuple[int, ...]]) -> None:
    """Note an allocation so that a restarted node does not give the devices away again."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(allocation))
    temporary.replace(path)


def load(path: Path) -> dict[str, tuple[int, ...]]:
    """Return a noted allocation; empty when there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[int, ...]])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def _take(container: Object, reusable: list[int], free: list[int]) -> tuple[int, ...]:
    count = requested(container)
    chosen = [*reusable, *free][:count]
    if len(chosen) < count:
        raise NotEnoughDevices(
            f"Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
            f"Requested: {count}, Available: {len(chosen)}, which is unexpected"
        )
    for index in chosen:
        if index in free:
            free.remove(index)
    return tuple(chosen)
