"""Opening paths that a pod may change while they are resolved: nothing leads out of the directory they start in.

The kernel checks every step of the resolution (openat2, RESOLVE_BENEATH); a check of our own before or after it would
look at another path than the one that is opened. What is opened is used by its descriptor, never by its name again.
"""

from __future__ import annotations

import os
import stat

from trainshed.cluster.sandbox.linux import syscalls

_PATH = os.O_PATH | os.O_CLOEXEC
_RESOLVE = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS
_IN_ROOT = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS
_ATTEMPTS = 64


def open_beneath(root: int, path: str, *, as_root: bool = False) -> int:
    """Return an O_PATH descriptor of `path` below the directory `root`; symbolic links are followed within it.

    With `as_root` absolute ones begin there. Raises OSError; EXDEV where the path leads out.
    """
    resolve = _IN_ROOT if as_root else _RESOLVE
    for _ in range(_ATTEMPTS):
        try:
            return syscalls.openat2(root, path, _PATH, resolve)
        except BlockingIOError:
            continue  # something was renamed meanwhile, and the kernel could not be sure
    return syscalls.openat2(root, path, _PATH, resolve)


def make_beneath(root: int, path: str, *, as_root: bool = False) -> int:
    """As `open_beneath`; directories that are missing are made, with the mode that `root` has.

    With `as_root` they have 0755.
    """
    mode = 0o755 if as_root else os.fstat(root).st_mode & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    current = os.open(".", _PATH | os.O_DIRECTORY, dir_fd=root)
    for number, part in enumerate(parts, start=1):
        place = "/".join(parts[:number])
        try:
            try:
                following = open_beneath(root, place, as_root=as_root)
            except FileNotFoundError:
                try:
                    _make(current, part, mode)
                except FileExistsError:
                    pass  # made by another pod meanwhile; a link to nowhere is told by the next line
                following = open_beneath(root, place, as_root=as_root)
        finally:
            os.close(current)
        current = following
    return current


def _make(parent: int, name: str, mode: int) -> None:
    """Make a directory with `mode`, whatever the umask. Raises OSError; FileExistsError where something is there."""
    os.mkdir(name, 0o755 & mode, dir_fd=parent)
    made = os.open(name, _PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        # Of its set-group-ID bit nothing is taken away: it comes from the directory above.
        os.chmod(f"/proc/self/fd/{made}", os.fstat(made).st_mode & stat.S_ISGID | mode)
    finally:
        os.close(made)
