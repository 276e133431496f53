"""What is mounted where, as this process sees it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# File systems that hold no data of the host: a container gets its own or none.
PSEUDO = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    ]
)


def read_mounts(path: str = "/proc/self/mountinfo") -> dict[str, str]:
    """Return the file system type on top at each mount point. Format: proc_pid_mountinfo(5)."""
    mounts = {}
    with open(path, "rb") as file:
        for line in file:
            fields = line.split()
            kind = fields[fields.index(b"-", 6) + 1]
            mounts[_unescape(fields[4])] = kind.decode()
    return mounts


def other_places(path: str, table: str = "/proc/self/mountinfo") -> list[str]:
    """Return where else what is at `path` can be seen: through other mounts of the same file system.

    A bind mount of it or of a directory above it, another subvolume of btrfs. Places below it that are mounted
    elsewhere count, too.
    """
    path = os.path.realpath(path)
    mounts = []
    with open(table, "rb") as file:
        for line in file:
            fields = line.split()
            mounts.append((fields[2], _unescape(fields[3]).rstrip("/"), _unescape(fields[4]).rstrip("/")))
    device, root, point = max(
        (mount for mount in mounts if _is_in(path, mount[2])), key=lambda mount: len(mount[2])
    )
    inside = root + path[len(point) :]
    found = set()
    for other, shown, place in mounts:
        if other == device and _is_in(inside, shown):
            found.add(place + inside[len(shown) :])
        elif other == device and _is_in(shown, inside):
            found.add(place)
    return sorted(found - {path, ""})


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _unescape(field: bytes) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    if b"\\" in field:
        for code in (b"040", b"011", b"012", b"134"):
            field = field.replace(b"\\" + code, bytes([int(code, 8)]))
    return field.decode(errors="surrogateescape")


def above(points: Iterable[str]) -> set[str]:
    """Return the directories that have any of the mount points strictly below them."""
    found: set[str] = set()
    for point in points:
        directory = os.path.dirname(point)
        while directory not in found and directory != point:
            found.add(directory)
            point, directory = directory, os.path.dirname(directory)
    return found
