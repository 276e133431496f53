"""Who a container runs as: user, groups and capabilities inside the sandboxes' user namespace."""

from __future__ import annotations

import functools
import os

from trainshed.cluster.sandbox.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Confine: TypeAlias = Callable[[], None]

# Numbers from linux/capability.h, in order.
_NAMES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
# The set that Docker and containerd give a container.
_DEFAULT = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
]


def capability_set(privileged: bool, add: list[str], drop: list[str]) -> int:
    """Return the bits of the capabilities a container has. Raises ValueError for an unknown name."""
    bits = _bits(_NAMES) if privileged else _bits(_DEFAULT)
    if "ALL" in drop:
        bits = 0
    if "ALL" in add:
        bits = _bits(_NAMES)
    bits &= ~_bits([name for name in drop if name != "ALL"])
    return bits | _bits([name for name in add if name != "ALL"])


def has_capability(capabilities: int, name: str) -> bool:
    """Return whether the bits of `capabilities` have the one of this name."""
    return bool(capabilities >> _NUMBERS[name] & 1)


def _bits(names: list[str]) -> int:
    bits = 0
    for name in names:
        number = _NUMBERS.get(name.upper().removeprefix("CAP_"))
        if number is None:
            raise ValueError(f"unknown capability {name!r}")
        bits |= 1 << number
    return bits


def remember() -> None:
    """Read what holds for all that forks from this process while it stays in its user namespace."""
    _map("uid")
    _map("gid")
    _last_capability()


def is_mapped(number: int, kind: str) -> bool:
    """Return whether this user namespace has uid or gid `number`; `kind` is uid or gid."""
    return any(first <= number < first + count for first, count in _map(kind))


@functools.cache
def _map(kind: str) -> list[tuple[int, int]]:
    """Return the first and the count of each range of ids in this user namespace."""
    with open(f"/proc/self/{kind}_map") as file:
        fields = [line.split() for line in file]
    return [(int(first), int(count)) for first, _, count in fields]


@functools.cache
def _last_capability() -> int:
    """Return the highest number of a capability that this kernel has."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        return int(file.read())


class Identity:
    """Who a process of a container becomes. `confine` is called when nothing is left to do that it could refuse,
    but before capabilities are lost that it takes."""

    __slots__ = ("capabilities", "confine", "gid", "groups", "no_new_privs", "uid")

    def __init__(
        self, uid: int, gid: int, groups: list[int], capabilities: int, no_new_privs: bool, confine: Confine
    ) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.capabilities = capabilities
        self.no_new_privs = no_new_privs
        self.confine = confine


def become(identity: Identity) -> None:
    """Take the identity of a container's process; the last step before exec. Raises OSError.

    Without subordinate ids the namespace has uid 0 only. A container that asks for another then gets a
    user namespace of its own in which its uid stands for that one.
    """
    drop_bounding(identity.capabilities)
    if is_mapped(identity.uid, "uid") and is_mapped(identity.gid, "gid"):
        try:
            os.setgroups([group for group in identity.groups if is_mapped(group, "gid")])
        except PermissionError:
            pass  # without subordinate ids the kernel allows no change of groups
    else:
        _enter_namespace_of(identity)
    _take(identity)


def rejoin(namespace: int, identity: Identity) -> None:
    """As `become`, for a process that joins a container: `namespace` is its user namespace, or -1."""
    if namespace < 0:
        become(identity)
        return
    drop_bounding(identity.capabilities)
    syscalls.setns(namespace, syscalls.CLONE_NEWUSER)
    _take(identity)


def _take(identity: Identity) -> None:
    uid, gid = identity.uid, identity.gid
    os.setresgid(gid, gid, gid)
    identity.confine()
    os.setresuid(uid, uid, uid)
    if identity.no_new_privs:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding(capabilities: int) -> None:
    """Let exec give no other capabilities than these: uid 0 gets all of the bounding set, others none."""
    for number in range(_last_capability() + 1):
        if not capabilities >> number & 1:
            syscalls.prctl(syscalls.PR_CAPBSET_DROP, number)


def _enter_namespace_of(identity: Identity) -> None:
    uid, gid = identity.uid, identity.gid
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    # One that is beside others is not dumpable, and its /proc then not its own to write.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{gid} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
