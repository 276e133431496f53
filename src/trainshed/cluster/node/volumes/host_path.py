"""hostPath volumes: a path of the machine itself, checked and made as its `type` says
(pkg/volume/hostpath)."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from trainshed.cluster.node.volumes.volume import DirectoryVolume, MountError, Setup, Source, Volume

_CHECKS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


class HostPathVolume(DirectoryVolume):
    """A file or directory of the machine."""

    field = "hostPath"

    def directory(self, setup: Setup) -> Volume:
        return Volume(host_path(setup.source))


def host_path(source: Source) -> Path:
    """Return the path, created where the type allows it. Raises MountError.

    Without a type a missing path is made a directory, as container runtimes do.
    """
    path, kind = Path(source["path"]), source.get("type") or ""
    try:
        _create(path, kind)
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise MountError(f"hostPath type check failed: {path} does not exist") from None
    except OSError as error:
        raise MountError(f"hostPath {path}: {error.strerror}") from error
    if kind and kind not in _CHECKS:
        raise MountError(f"{kind} is an invalid volume type")
    if kind and not _CHECKS[kind][0](mode):
        raise MountError(f"hostPath type check failed: {path} is not a {_CHECKS[kind][1]}")
    return path


def _create(path: Path, kind: str) -> None:
    if path.exists():
        return
    if kind in ("", "DirectoryOrCreate"):
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644)
