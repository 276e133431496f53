"""The user namespace that all sandboxes live in, made by a pair of processes.

A process cannot map more than its own id into its namespace; another one outside it can. So the launcher
stays behind, writes the maps when the daemon has unshared, and lets it go on.

    root            every id stands for itself: files keep their owners, and pods have no power over the host
    anyone else     uid 0 is the user; with newuidmap and /etc/subuid, 1.. are the user's subordinate ids
"""

from __future__ import annotations

import os
import pwd

_EXECUTABLES = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin")


class MappingError(Exception):
    """The kernel or newuidmap refused the ids."""


def write_maps(pid: int) -> None:
    """Map ids into the new user namespace of `pid`. Raises MappingError."""
    uid = os.geteuid()
    if uid == 0:
        for kind in ("uid", "gid"):
            _write(pid, f"{kind}_map", _identity(kind))
        return
    ranges = [_subordinate(path, uid) for path in ("/etc/subuid", "/etc/subgid")]
    tools = [_find("newuidmap"), _find("newgidmap")]
    owners = (uid, os.getegid())
    if all(ranges) and all(tools):
        done = 0
        for tool, owner, found in zip(tools, owners, ranges, strict=True):
            first, count = found or (0, 0)
            arguments = [str(pid), "0", str(owner), "1", "1", str(first), str(count)]
            done += os.spawnv(os.P_WAIT, tool, [tool, *arguments]) == 0
        if done == 2:
            return
        if done == 1:
            raise MappingError("newuidmap and newgidmap disagree about the subordinate ids of this user")
    _write(pid, "setgroups", "deny")
    _write(pid, "uid_map", f"0 {uid} 1")
    _write(pid, "gid_map", f"0 {os.getegid()} 1")


def forbid_cgroup_namespaces() -> None:
    """Let nothing in this user namespace make a cgroup namespace; say so in the log where that cannot be done.

    The owner of one may mount the hierarchies of the machine's cgroups, whose files belong to the user that pods run
    as: `cgroup.kill` there ends whatever the user runs. Without one the kernel refuses the mount, for the namespace
    that it is done in is the machine's.
    """
    try:
        with open("/proc/sys/user/max_cgroup_namespaces", "w") as file:
            file.write("0")
    except FileNotFoundError:
        return  # a kernel without cgroups
    except OSError as error:  # a read-only /proc/sys of an outer container
        os.write(2, f"pods may make cgroup namespaces: {error}\n".encode())


def _write(pid: int, name: str, text: str) -> None:
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise MappingError(f"cannot write {name}: {error.strerror}") from None


def _identity(kind: str) -> str:
    """Map every id of this namespace, which may itself be a container's, to itself."""
    lines = []
    with open(f"/proc/self/{kind}_map") as file:
        for line in file:
            first, _, count = line.split()
            lines.append(f"{first} {first} {count}\n")
    return "".join(lines)


def _subordinate(path: str, uid: int) -> tuple[int, int] | None:
    """Return (first, count) of the user's subordinate ids; None without any."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    try:
        with open(path) as file:
            for line in file:
                fields = line.strip().split(":")
                if len(fields) == 3 and fields[0] in (name, str(uid)) and int(fields[2]) > 0:
                    return int(fields[1]), int(fields[2])
    except (OSError, ValueError):
        return None
    return None


def _find(name: str) -> str:
    for directory in _EXECUTABLES:
        if os.access(f"{directory}/{name}", os.X_OK):
            return f"{directory}/{name}"
    return ""
