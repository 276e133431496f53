"""NVIDIA GPUs: which there are, which container gets which, and how it sees them.

There is no device plugin: device files of the host are handed in, and CUDA is told to use no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.node.devices.nvml import Gpu
from trainshed.cluster.sandbox.model import Mount
from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import init_containers, is_sidecar, main_containers

RESOURCE = "nvidia.com/gpu"
SHARED_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Needed by every CUDA program whatever its GPU."""
_DEVICE = re.compile(r"^nvidia([0-9]+)$")


DRIVER_PATH = "/usr/local/nvidia/lib64"
"""Where images that are made for GPUs look for the driver."""
DRIVER_PLACES = tuple(
    Path(each)
    for each in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib/wsl/lib",
        DRIVER_PATH,
    )
)
_DRIVER_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvidia-(ml|ptxjitcompiler|nvvm|gpucomp|opencl|encode))\.so(\.[0-9]+)*"
)


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


def environment(indexes: Iterable[int], known: Mapping[int, Gpu] | None = None) -> dict[str, str]:
    """Return the variables by which CUDA and NVIDIA's tools see these GPUs and no others.

    By their uuids where those are `known`: CUDA counts only what it can open, in an order of its own.
    """
    gpus = known or {}
    text = ",".join(gpus[index].uuid if index in gpus else str(index) for index in indexes)
    return {"NVIDIA_VISIBLE_DEVICES": text or "void", "CUDA_VISIBLE_DEVICES": text}


def device_files(indexes: Iterable[int], directory: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the device files that a container with these GPUs needs."""
    names = [f"nvidia{index}" for index in indexes]
    if not names:
        return ()
    return tuple(str(directory / n) for n in (*names, *SHARED_DEVICES) if (directory / n).exists())


def driver_mounts(directories: Iterable[Path] = DRIVER_PLACES) -> tuple[Mount, ...]:
    """Return the driver's libraries as mounts for containers in images: they belong to the kernel's module.

    Images find them by `library_path`; of two places that have one of a name the first counts.
    """
    found: dict[str, Path] = {}
    for directory in directories:
        for file in sorted(directory.glob("lib*.so*")):
            if _DRIVER_LIBRARY.fullmatch(file.name):
                found.setdefault(file.name, file.resolve())
    return tuple(
        Mount(str(file), f"{DRIVER_PATH}/{name}", read_only=True) for name, file in sorted(found.items())
    )


def library_path(before: str) -> dict[str, str]:
    """Return the variable by which programs find the driver's libraries, after those that the image names itself."""
    return {"LD_LIBRARY_PATH": f"{before}:{DRIVER_PATH}" if before else DRIVER_PATH}


def labels(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Return what a node's labels say of its GPUs, as NVIDIA's GPU feature discovery spells it."""
    found = sorted(gpus, key=lambda gpu: gpu.minor)
    if not found:
        return {}
    product = re.sub(r"[^A-Za-z0-9_.-]+", "-", found[0].name).strip("-_.")[:63]
    return {
        f"{RESOURCE}.present": "true",
        f"{RESOURCE}.count": str(len(found)),
        f"{RESOURCE}.memory": str(found[0].memory_bytes >> 20),
        **({f"{RESOURCE}.product": product} if product else {}),
    }


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
