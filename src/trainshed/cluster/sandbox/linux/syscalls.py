"""System calls that the standard library lacks, through ctypes. Each raises OSError as `os` functions do.

Constants are from the kernel's uapi headers: linux/sched.h, linux/mount.h, linux/prctl.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_PARENT = 0x00008000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_SET_CHILD_SUBREAPER = 36

_M_TRIM_THRESHOLD = -1

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_OPENAT2 = 437
_SYS_PIDFD_GETFD = 438
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_SYS_MOUNT_SETATTR = 442  # the same on every architecture (numbers above 423 are)
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4  # Linux 4.17: memory accesses are as fast as without a filter
_SYS_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "ppc64le": 120}

_libc = ctypes.CDLL(None, use_errno=True)
# Declared where a container's start calls it often: converting arguments by hand takes longer than the calls.
_libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
_libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)


def _check(result: int, *names: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *names)
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _check(_libc.unshare(ctypes.c_int(flags)))


def setns(fd: int, flags: int) -> None:
    """Enter the namespace that `fd` refers to; a pidfd enters all that `flags` names (Linux 5.8)."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)))


def clone(flags: int) -> int:
    """Fork into new namespaces; return 0 in the child, which must end in exec or `os._exit`.

    `fork` after `unshare(CLONE_NEWPID)` would need one more process, for a process may do that once only.
    The caller must be single-threaded: the interpreter's fork hooks do not run.
    """
    number = _SYS_CLONE[os.uname().machine]
    arguments = [ctypes.c_long(value) for value in (number, flags | signal.SIGCHLD, 0, 0, 0, 0)]
    return _check(int(_libc.syscall(*arguments)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). The error names the target."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        data.encode() or None,
    )
    _check(result, target)


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """umount2(2), by default lazily with all that is below."""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), target)


def pivot_root(new_root: str, put_old: str) -> None:
    """pivot_root(2): glibc and musl export it without declaring it."""
    _check(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)), new_root)


def clone_tree(fd: int) -> int:
    """Return a descriptor of a detached copy of what `fd` refers to, with mounts below it (open_tree(2), Linux 5.2)."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_EMPTY_PATH | os.O_CLOEXEC
    result = _libc.syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_int(fd), b"", ctypes.c_uint(flags))
    return _check(int(result))


def attach_tree(fd: int, target: str) -> None:
    """Mount a detached copy at `target` (move_mount(2), Linux 5.2)."""
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOVE_MOUNT),
        ctypes.c_int(fd),
        b"",
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
    )
    _check(int(result), target)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def make_read_only(target: str, recursive: bool = True) -> None:
    """Make the mount at `target` read-only, and with `recursive` those below it; other flags stay.

    A mount copied into a user namespace has locked flags (nosuid, nodev, noexec, atime) that a remount
    must repeat. mount_setattr (Linux 5.12) changes one flag alone; before it, the flags are read back.
    """
    attributes = _MountAttributes(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if result == 0:
        return
    number = ctypes.get_errno()
    if number != errno.ENOSYS:
        raise OSError(number, os.strerror(number), target)
    found = os.statvfs(target).f_flag
    kept = found & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    kept |= MS_RELATIME if found & os.ST_RELATIME else 0
    mount("none", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    """openat2(2), Linux 5.6: open an existing file, with restrictions on how its path is resolved."""
    how = _OpenHow(flags, 0, resolve)
    result = _libc.syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(directory),
        os.fsencode(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return _check(int(result), path)


def join_session_keyring() -> None:
    """Leave the session keyring of whoever started this process for a new, empty one (keyctl(2))."""
    number = _SYS_KEYCTL[os.uname().machine]
    _check(
        int(
            _libc.syscall(
                ctypes.c_long(number), ctypes.c_long(_KEYCTL_JOIN_SESSION_KEYRING), ctypes.c_long(0)
            )
        )
    )


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_calls(instructions: bytes) -> None:
    """seccomp(2): put this process under a filter, an array of struct sock_filter."""
    _set_filter(instructions, _SECCOMP_FILTER_FLAG_SPEC_ALLOW)


def filter_calls_with_listener(instructions: bytes) -> int:
    """As `filter_calls`; return a descriptor at which calls arrive that the filter hands over (Linux 5.0)."""
    return _set_filter(instructions, _SECCOMP_FILTER_FLAG_SPEC_ALLOW | _SECCOMP_FILTER_FLAG_NEW_LISTENER)


def _set_filter(instructions: bytes, flags: int) -> int:
    program = _FilterProgram(len(instructions) // 8, instructions)
    result = _libc.syscall(
        ctypes.c_long(_SYS_SECCOMP[os.uname().machine]),
        ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_uint(flags),
        ctypes.byref(program),
    )
    return _check(int(result))


def take_descriptor(process: int, number: int) -> int:
    """Return a copy of descriptor `number` of the process that a pidfd refers to (pidfd_getfd(2), Linux 5.6)."""
    arguments = (
        ctypes.c_long(_SYS_PIDFD_GETFD),
        ctypes.c_int(process),
        ctypes.c_int(number),
        ctypes.c_uint(0),
    )
    return _check(int(_libc.syscall(*arguments)))


def landlock_version() -> int:
    """Return the version of the kernel's Landlock (landlock_create_ruleset(2)). Raises OSError where there is none."""
    arguments = (ctypes.c_void_p(None), ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_CREATE_RULESET_VERSION))
    return _check(int(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET), *arguments)))


def landlock_create_ruleset(attributes: bytes) -> int:
    """Return a descriptor of a new set of rules; `attributes` are a struct landlock_ruleset_attr."""
    arguments = (attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    return _check(int(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET), *arguments)))


def landlock_add_rule(ruleset: int, attributes: bytes) -> None:
    """Add a rule for what is below a directory; `attributes` are a struct landlock_path_beneath_attr."""
    arguments = (
        ctypes.c_int(ruleset),
        ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
        attributes,
        ctypes.c_uint(0),
    )
    _check(int(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_ADD_RULE), *arguments)))


def landlock_restrict_self(ruleset: int) -> None:
    """Have this process, and what it forks, keep to the rules from now on."""
    arguments = (ctypes.c_int(ruleset), ctypes.c_uint(0))
    _check(int(_libc.syscall(ctypes.c_long(_SYS_LANDLOCK_RESTRICT_SELF), *arguments)))


def prctl(option: int, value: int = 0) -> None:
    """prctl(2) with one argument."""
    _check(_libc.prctl(option, value, 0, 0, 0))


def forget_signal_handlers() -> None:
    """Have the default action for every signal, without the interpreter's knowledge: for a process about to exec."""
    for number in range(1, signal.NSIG):
        _libc.signal(number, None)  # refused for SIGKILL, SIGSTOP and those that the library keeps


def set_process_name(name: str) -> None:
    """Name this process in `ps` and /proc; the kernel keeps 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _libc.prctl(PR_SET_NAME, ctypes.addressof(buffer), 0, 0, 0)


def keep_freed(size: int) -> None:
    """Have the C library keep up to `size` bytes of freed memory, where it can be told (mallopt(3) of glibc).

    Otherwise it gives what is above 128 KiB back at once, and asks anew for the next large buffer, page by page.
    """
    try:
        _libc.mallopt(_M_TRIM_THRESHOLD, size)
    except AttributeError:
        return


def unlock_terminal(master: int) -> str:
    """Make the other side of a new pseudo-terminal ready for use and return its name."""
    name = ctypes.create_string_buffer(64)
    _check(_libc.unlockpt(ctypes.c_int(master)))
    if _libc.ptsname_r(ctypes.c_int(master), name, ctypes.c_size_t(len(name))) != 0:
        raise OSError("the terminal has no name")
    return os.fsdecode(name.value)
