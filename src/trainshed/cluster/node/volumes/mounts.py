"""volumeMounts as bind mounts: sub-paths, expansion, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from trainshed.cluster.node.volumes.volume import MountError, Volume
from trainshed.cluster.sandbox.model import Mount
from trainshed.kube.meta.expansion import expand, unresolved
from trainshed.kube.meta.objects import Object


def container_mounts(
    container: Object, volumes: Mapping[str, Volume], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Return the mounts of a container, outer paths first so that nested ones stay visible.

    Creates missing sub-directories in writable volumes. Raises MountError.
    """
    out = []
    for declared in container.get("volumeMounts") or ():
        volume = volumes[declared["name"]]
        source = volume.source
        sub_path = _sub_path(declared, variables)
        if sub_path:
            source = _below(volume, sub_path)
        read_only = volume.read_only or bool(declared.get("readOnly"))
        out.append(Mount(str(source), declared["mountPath"], read_only))
    return tuple(sorted(out, key=lambda m: len(PurePosixPath(m.path).parts)))


def _sub_path(declared: Object, variables: Mapping[str, str]) -> str:
    if not declared.get("subPathExpr"):
        return str(declared.get("subPath") or "")
    missing = unresolved(declared["subPathExpr"], variables)
    if missing:
        raise MountError(f"failed to expand subPathExpr {declared['subPathExpr']}: no value for {missing[0]}")
    return expand(declared["subPathExpr"], variables)


def _below(volume: Volume, sub_path: str) -> Path:
    """Return the sub-path inside the volume; a symbolic link must not lead out of it."""
    pure = PurePosixPath(sub_path)
    if pure.is_absolute() or ".." in pure.parts:
        raise MountError(f'subPath "{sub_path}" must be a relative path without ".."')
    root = volume.source.resolve()
    target = (root / sub_path).resolve()
    if not target.is_relative_to(root):
        raise MountError(f'subPath "{sub_path}" leads out of the volume')
    if not target.exists():
        if volume.read_only:
            raise MountError(f'subPath "{sub_path}" does not exist in a read-only volume')
        target.mkdir(parents=True, exist_ok=True, mode=0o755)
    return target
