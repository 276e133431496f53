"""volumeMounts as bind mounts: sub-paths, expansion, read-only."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import PurePosixPath

from trainshed.cluster.node.volumes.volume import MountError, Volume
from trainshed.cluster.sandbox.linux.beneath import make_beneath, open_beneath
from trainshed.cluster.sandbox.model import MemoryVolume, Mount
from trainshed.kube.meta.expansion import TooLong, expand, references
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import all_containers, init_containers, is_sidecar, main_containers

_SHOWN = 100
"""Characters of a sub-path in an event."""


def container_mounts(
    container: Object,
    volumes: Mapping[str, Volume],
    variables: Mapping[str, str],
    images: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Mount, ...]:
    """Return the mounts of a container, outer paths first so that nested ones stay visible.

    `images` are the layers of volumes that are images. Creates missing sub-directories in writable volumes. Raises
    MountError.
    """
    out = []
    for declared in container.get("volumeMounts") or ():
        volume = volumes[declared["name"]]
        sub_path = _sub_path(declared, variables)
        if sub_path:
            _prepare(volume, sub_path)
        if volume.image is not None:
            layers = (images or {})[declared["name"]]
            name = volume.image["reference"]
            out.append(Mount(name, declared["mountPath"], True, sub_path, lowers=layers))
            continue
        read_only = volume.read_only or bool(declared.get("readOnly"))
        make = bool(sub_path and volume.memory_bytes)  # the shim sees what is there
        out.append(Mount(str(volume.source), declared["mountPath"], read_only, sub_path, make))
    return tuple(sorted(out, key=lambda m: len(PurePosixPath(m.path).parts)))


def refuse_block_devices(pod: Object) -> None:
    """Raise MountError for a pod that wants volumes as block devices, which directories are not."""
    for container in all_containers(pod):
        for device in container.get("volumeDevices") or ():
            name = device.get("name", "")
            raise MountError(
                f'volume "{name}" is specified in volumeDevices: this node has no block devices to offer'
            )


def memory_volumes(pod: Object, volumes: Mapping[str, Volume], gid: int | None = None) -> list[MemoryVolume]:
    """Return the volumes in memory, and how many containers may write to each: all but those that come and go first.

    They belong to the group `gid`.
    """
    out = []
    for name, volume in volumes.items():
        if not volume.memory_bytes:
            continue
        stay = [*main_containers(pod), *(c for c in init_containers(pod) if is_sidecar(c))]
        mounts = [[m for m in c.get("volumeMounts") or () if m["name"] == name] for c in stay]
        writers = sum(any(not m.get("readOnly") for m in of_one) for of_one in mounts)
        out.append(MemoryVolume(str(volume.source), volume.memory_bytes, max(1, writers), gid))
    return out


def _sub_path(declared: Object, variables: Mapping[str, str]) -> str:
    if not declared.get("subPathExpr"):
        return str(declared.get("subPath") or "")
    # An empty value would make another path of it (ExpandContainerVolumeMounts of k8s.io/kubernetes).
    expression = declared["subPathExpr"]
    if missing := sorted(name for name in references(expression) if not variables.get(name)):
        raise MountError(f"missing value for {', '.join(missing)}")
    try:
        return expand(expression, variables)
    except TooLong as error:
        raise MountError(f"subPathExpr: {error}") from None


def _prepare(volume: Volume, sub_path: str) -> None:
    """Make the sub-path where it is missing; raise MountError where it cannot be mounted.

    Pods that share the volume may change it at any time, so the sandbox resolves the path again, in the same way.
    """
    pure = PurePosixPath(sub_path)
    if pure.is_absolute():
        raise MountError(f"error SubPath `{sub_path}` must not be an absolute path")
    if ".." in pure.parts:
        raise MountError(f"unable to provision SubPath `{sub_path}`: must not contain '..'")
    if volume.memory_bytes or volume.image is not None:
        return  # looked for where it can be seen
    try:
        root = os.open(volume.source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(open_beneath(root, sub_path) if volume.read_only else make_beneath(root, sub_path))
        finally:
            os.close(root)
    except FileNotFoundError:
        if volume.read_only:
            raise MountError(f'subPath "{sub_path}" does not exist in a read-only volume') from None
        raise MountError(f'subPath "{sub_path}" is a symbolic link to nowhere') from None
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise MountError(f'subPath "{sub_path}" leads out of the volume') from None
        raise MountError(f'subPath "{sub_path[:_SHOWN]}" cannot be mounted: {error.strerror}') from None
