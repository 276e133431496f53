"""Handing the files of a volume to a group, as `fsGroup` asks (pkg/volume/volume_linux.go).

Pods that share a volume may change it meanwhile: what is changed is held by a descriptor, never named again, so that no
symbolic link leads out.
"""

from __future__ import annotations

import os
import stat

from trainshed.cluster.sandbox.linux.beneath import open_beneath

_HELD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ, _WRITE, _SEARCH = 0o440, 0o660, 0o110


def hand_to_group(path: str, gid: int, *, read_only: bool, if_differs: bool) -> None:
    """Let the group `gid` own the tree at `path`, read it, and write to it unless `read_only`.

    With `if_differs` nothing happens if the directory at `path` says so already. Raises OSError; files that go
    meanwhile are passed over.
    """
    top = os.open(path, _HELD)
    try:
        if if_differs and _is_handed(os.fstat(top), gid, read_only):
            return
        _hand(top, gid, read_only)
        waiting = ["."]
        while waiting:
            waiting += _hand_below(top, waiting.pop(), gid, read_only)
    finally:
        os.close(top)


def _hand_below(top: int, path: str, gid: int, read_only: bool) -> list[str]:
    """Hand what is in a directory below `top` to the group; return the directories in it."""
    try:
        place = open_beneath(top, path)
    except FileNotFoundError:
        return []
    below = []
    try:
        directory = os.open(".", _DIRECTORY, dir_fd=place)
        try:
            names = os.listdir(directory)
        finally:
            os.close(directory)
        for name in names:
            try:
                held = os.open(name, _HELD, dir_fd=place)
            except FileNotFoundError:
                continue
            try:
                if _hand(held, gid, read_only):
                    below.append(f"{path}/{name}")
            finally:
                os.close(held)
    finally:
        os.close(place)
    return below


def _hand(held: int, gid: int, read_only: bool) -> bool:
    """Hand one file to the group; return whether it is a directory."""
    found = os.fstat(held)
    if stat.S_ISLNK(found.st_mode):
        return False
    path = f"/proc/self/fd/{held}"
    os.chown(path, -1, gid)
    os.chmod(path, stat.S_IMODE(found.st_mode) | _bits(found.st_mode, read_only))
    return stat.S_ISDIR(found.st_mode)


def _bits(mode: int, read_only: bool) -> int:
    bits = _READ if read_only else _WRITE
    return bits | _SEARCH | stat.S_ISGID if stat.S_ISDIR(mode) else bits


def _is_handed(found: os.stat_result, gid: int, read_only: bool) -> bool:
    bits = _bits(found.st_mode, read_only)
    return found.st_gid == gid and found.st_mode & bits == bits
