"""/proc, /sys and /dev of a container.

What is read-only or hidden below /proc and /sys follows the OCI runtimes' defaults: with the identity map
of a root user, process 1 is uid 0 of the host to sysctl files, whatever its capabilities are.
"""

from __future__ import annotations

import os
import stat

from trainshed.cluster.sandbox.linux import memory, syscalls
from trainshed.cluster.sandbox.linux.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
)

_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PROC_MASKED = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
_OWN = frozenset(("console", "core", "fd", "mqueue", "ptmx", "pts", "shm", "stderr", "stdin", "stdout"))
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_SAFE = MS_NOSUID | MS_NODEV | MS_NOEXEC


def mount_proc(root: str, privileged: bool) -> None:
    """Mount /proc of the current pid namespace; inside containers that hide parts of theirs, the host's."""
    target = f"{root}/proc"
    try:
        syscalls.mount("proc", target, "proc", _SAFE)
    except PermissionError:
        syscalls.mount("/proc", target, "", MS_BIND | MS_REC)
    for name in _PROC_READ_ONLY:
        _protect(f"{target}/{name}")
    if privileged:
        return
    for name in _PROC_MASKED:
        mask(f"{target}/{name}")


def _protect(path: str) -> None:
    if not os.path.exists(path):
        return
    try:
        syscalls.mount(path, path, "", MS_BIND | MS_REC)
        syscalls.make_read_only(path)
    except OSError:
        mask(path)


def mask(path: str) -> None:
    """Hide `path`, if there is one, under an empty read-only directory or /dev/null."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        syscalls.mount("tmpfs", path, "tmpfs", _SAFE | MS_RDONLY, "mode=0555")
    else:
        syscalls.mount("/dev/null", path, "", MS_BIND)


def mount_sys(root: str, own_network: bool, privileged: bool, cgroup: str) -> None:
    """Mount /sys read-only: of the pod's network namespace where it has one, else the host's.

    Programs find `cgroup`, the container's own if it has one, where they look for their limits.
    """
    target = f"{root}/sys"
    flags = 0 if privileged else MS_RDONLY
    try:
        if not own_network:
            raise PermissionError
        syscalls.mount("sysfs", target, "sysfs", _SAFE | flags)
    except PermissionError:
        syscalls.mount("/sys", target, "", MS_BIND | MS_REC)
        syscalls.make_read_only(target)
        return
    source = cgroup or "/sys/fs/cgroup"
    if os.path.isdir(source):
        syscalls.mount(source, f"{target}/fs/cgroup", "", MS_BIND | MS_REC)
        syscalls.make_read_only(f"{target}/fs/cgroup")
    if not privileged:
        mask(f"{target}/firmware")


def mount_dev(root: str, devices: list[str], privileged: bool) -> None:
    """Build /dev: the harmless devices, `devices` of the host, own terminals and shared memory.

    Raises OSError for a device that the host does not have.
    """
    target = f"{root}/dev"
    syscalls.mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=65536k")
    names = list(_DEVICES)
    if privileged:
        names = [name for name in os.listdir("/dev") if name not in _OWN]
    for name in names:
        if privileged or os.path.exists(f"/dev/{name}"):
            _bind_device(f"/dev/{name}", f"{target}/{name}", optional=privileged)
    for path in devices:
        place = f"{root}{os.path.normpath(path)}"
        if not os.path.lexists(place):
            _bind_device(path, place, optional=False)
    for name, to in _LINKS.items():
        os.symlink(to, f"{target}/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{target}/{name}")
    _mount_terminals(f"{target}/pts")
    memory.mount_shared(f"{target}/shm")
    try:
        syscalls.mount("mqueue", f"{target}/mqueue", "mqueue", _SAFE)
    except OSError:
        os.rmdir(f"{target}/mqueue")


def _bind_device(source: str, target: str, optional: bool) -> None:
    try:
        mode = os.stat(source).st_mode
        if stat.S_ISDIR(mode):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        syscalls.mount(source, target, "", MS_BIND | MS_REC)
    except OSError:
        if not optional:
            raise


def _mount_terminals(target: str) -> None:
    options = "newinstance,ptmxmode=0666,mode=0620"
    try:
        syscalls.mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, options + ",gid=5")
    except OSError:  # group 5 (tty) does not exist in this user namespace
        syscalls.mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, options)
