"""Files that change all at once: `..data` points at a directory that is replaced whole.

Layout and order of steps as in pkg/volume/util/atomic_writer.go: a reader that follows `..data` sees the old
set of files or the new one, never a mixture.

    volume/token            -> ..data/token
    volume/..data           -> ..2026_01_31_12_00_00.123456789
    volume/..2026…/token
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trainshed.cluster.node.volumes.files import File, check_path

DATA = "..data"
DIRECTORY_MODE = 0o755


def write(volume: Path, files: Mapping[str, File]) -> bool:
    """Make `volume` hold exactly `files` (by relative path); return whether anything changed."""
    fresh = stage(volume, files)
    if fresh is not None:
        show(volume, fresh)
    return fresh is not None


def stage(volume: Path, files: Mapping[str, File]) -> Path | None:
    """Write `files` into a new directory of `volume`, which shows them no sooner than `show` is called with it.

    Return that directory, None if the volume holds exactly these files.
    """
    volume.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    current = _current(volume)
    if current is not None and _same(current, files):
        return None
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=volume))
    fresh.chmod(DIRECTORY_MODE)
    for path, file in files.items():
        check_path(path)
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    return fresh


def show(volume: Path, fresh: Path) -> None:
    """Let `volume` show what `stage` has written to `fresh`, all at once, and nothing else."""
    current = _current(volume)
    _repoint(volume / DATA, fresh.name)
    tops = {entry.name for entry in fresh.iterdir()}
    for name in tops:
        visible = volume / name
        if not visible.is_symlink():
            visible.symlink_to(f"{DATA}/{name}")
    for entry in volume.iterdir():
        if entry.is_symlink() and entry.name != DATA and entry.name not in tops:
            entry.unlink()
    if current is not None and current.parent == volume.resolve():
        shutil.rmtree(current, ignore_errors=True)


def _current(volume: Path) -> Path | None:
    """Return the directory whose files the volume shows, if any."""
    link = volume / DATA
    return link.resolve() if link.is_symlink() else None


def _repoint(link: Path, target: str) -> None:
    temporary = link.with_name("..data_tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def _same(directory: Path, files: Mapping[str, File]) -> bool:
    present = {
        str(Path(root, name).relative_to(directory))
        for root, _, names in os.walk(directory)
        for name in names
    }
    if present != set(files):
        return False
    return all(
        (directory / path).read_bytes() == file.content
        and (directory / path).stat().st_mode & 0o7777 == file.mode
        for path, file in files.items()
    )
