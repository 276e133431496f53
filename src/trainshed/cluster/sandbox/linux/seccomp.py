"""The filter of system calls that containers run under: it refuses what container runtimes refuse by default.

What a default profile of theirs (Moby's, which containerd shares) leaves out is refused with EPERM, most of it only to
those who lack the capability that the call is for. As there, tracing of a container's own processes is allowed.

    other ABIs of the machine (32-bit, x32)      ENOSYS: their numbers mean other calls
    calls newer than the newest one known here   ENOSYS, as from a kernel that does not have them
    clone3, whose flags a filter cannot see      ENOSYS; libraries then use clone
    clone with flags of namespaces               EPERM
    sockets to hypervisors and kernel ciphers    EPERM
    personality                                  EPERM, but for those of 64 and 32 bit Linux

Formats: linux/seccomp.h, linux/bpf_common.h, linux/audit.h.
"""

from __future__ import annotations

import errno
import functools
import struct

from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.linux.credentials import has_capability

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM
MISSING = 0x00050000 | errno.ENOSYS
NEWEST = 466  # removexattrat, Linux 6.13; numbers from 424 on are the same everywhere

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_NAMESPACES = 0x7E020000  # CLONE_NEW*, but for CLONE_NEWTIME, which clone cannot be given
_AF_ALG, _AF_VSOCK = 38, 40
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_Instruction = tuple[int, int, int, int]

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""AUDIT_ARCH of each, and its column of numbers."""

# Numbers on x86-64 and of asm-generic/unistd.h, which newer architectures have; -1: there is none.
_CLONE, _CLONE3, _SOCKET, _PERSONALITY = (56, 220), (435, 435), (41, 198), (135, 92)
_NEVER = {
    "add_key": (248, 217),
    "create_module": (174, -1),
    "get_kernel_syms": (177, -1),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lsm_get_self_attr": (459, 459),
    "lsm_list_modules": (461, 461),
    "lsm_set_self_attr": (460, 460),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "pivot_root": (155, 41),
    "query_module": (178, -1),
    "request_key": (249, 218),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "_sysctl": (156, -1),
    "sysfs": (139, -1),
    "uselib": (134, -1),
    "userfaultfd": (323, 282),
    "ustat": (136, -1),
    "vserver": (236, -1),
}
_WITHOUT = {
    "DAC_READ_SEARCH": {"open_by_handle_at": (304, 265)},
    "SYS_ADMIN": {
        "fanotify_init": (300, 262),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fsopen": (430, 430),
        "fspick": (433, 433),
        "lookup_dcookie": (212, 18),
        "mount": (165, 40),
        "mount_setattr": (442, 442),
        "move_mount": (429, 429),
        "open_tree": (428, 428),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "setdomainname": (171, 162),
        "sethostname": (170, 161),
        "setns": (308, 268),
        "umount2": (166, 39),
        "unshare": (272, 97),
    },
    "SYS_ADMIN BPF": {"bpf": (321, 280)},
    "SYS_ADMIN PERFMON": {"perf_event_open": (298, 241)},
    "SYS_ADMIN SYSLOG": {"syslog": (103, 116)},
    "SYS_BOOT": {"reboot": (169, 142)},
    "SYS_CHROOT": {"chroot": (161, 51)},
    "SYS_MODULE": {"delete_module": (176, 106), "finit_module": (313, 273), "init_module": (175, 105)},
    "SYS_NICE": {
        "get_mempolicy": (239, 236),
        "mbind": (237, 235),
        "set_mempolicy": (238, 237),
        "set_mempolicy_home_node": (450, 450),
    },
    "SYS_PACCT": {"acct": (163, 89)},
    "SYS_PTRACE": {"kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440)},
    "SYS_RAWIO": {"ioperm": (173, -1), "iopl": (172, -1)},
    "SYS_TIME": {"clock_settime": (227, 112), "settimeofday": (164, 170)},
    "SYS_TTY_CONFIG": {"vhangup": (153, 58)},
}
"""What is refused without any of the capabilities."""


@functools.cache
def program(machine: str, capabilities: int) -> bytes:
    """Return the filter for a container with `capabilities`, as `syscalls.filter_calls` takes it.

    Empty for a machine (`uname -m`) whose numbers are not known here.
    """
    if machine not in MACHINES:
        return b""
    architecture, column = MACHINES[machine]
    namespaces = has_capability(capabilities, "SYS_ADMIN")
    out = [
        _load(_ARCHITECTURE),
        *_unless(_EQUAL, architecture, [_result(MISSING)]),
        _load(_NUMBER),
        *_when(_GREATER, NEWEST, [_result(MISSING)]),
    ]
    for number in refused(column, capabilities):
        out += _when(_EQUAL, number, [_result(REFUSE)])
    if not namespaces:
        out += _when(_EQUAL, _CLONE3[column], [_result(MISSING)])
        flags = [_load(_ARGUMENT), *_when(_ANY_BIT, _NAMESPACES, [_result(REFUSE)]), _result(ALLOW)]
        out += _when(_EQUAL, _CLONE[column], flags)
    family = [_load(_ARGUMENT)]
    for refuse in (_AF_ALG, _AF_VSOCK):
        family += _when(_EQUAL, refuse, [_result(REFUSE)])
    out += _when(_EQUAL, _SOCKET[column], [*family, _result(ALLOW)])
    persona = [_load(_ARGUMENT)]
    for allowed in _PERSONALITIES:
        persona += _when(_EQUAL, allowed, [_result(ALLOW)])
    out += _when(_EQUAL, _PERSONALITY[column], [*persona, _result(REFUSE)])
    out.append(_result(ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in out)


def refused(column: int, capabilities: int) -> list[int]:
    """Return the numbers that are refused whatever their arguments are."""
    found = [numbers[column] for numbers in _NEVER.values()]
    for names, calls in _WITHOUT.items():
        if not any(has_capability(capabilities, name) for name in names.split()):
            found += [numbers[column] for numbers in calls.values()]
    return sorted(number for number in found if number >= 0)


def apply(filter_: bytes) -> None:
    """Put this process and what it becomes under a filter; nothing happens with an empty one. Raises OSError.

    Takes no_new_privs or SYS_ADMIN in the process's user namespace.
    """
    if filter_:
        syscalls.filter_calls(filter_)


def _load(offset: int) -> _Instruction:
    return _LOAD, 0, 0, offset


def _result(action: int) -> _Instruction:
    return _RETURN, 0, 0, action


def _when(comparison: int, value: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(comparison, 0, len(then), value), *then]


def _unless(comparison: int, value: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(comparison, len(then), 0, value), *then]
