"""System calls that a supervisor looks at before the kernel carries them out (seccomp_unotify(2), Linux 5.5).

A filter hands `bind`, `connect` and `uname` of a process and its children to whoever holds the listener. That one reads
and changes the memory that the arguments point to, and lets the kernel go on, or answers itself.

Formats: linux/seccomp.h, linux/bpf_common.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.linux.seccomp import ALLOW, MACHINES

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_NOTIFY = 0x7FC00000
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags; nr, arch, instruction pointer, arguments
_RESPONSE = struct.Struct("=QqiI")
_READ_WRITE = 3


def _request(number: int, size: int, direction: int = _READ_WRITE) -> int:
    return direction << 30 | size << 16 | ord("!") << 8 | number


_RECEIVE = _request(0, _NOTIFICATION.size)
_SEND = _request(1, _RESPONSE.size)
_IS_VALID = _request(2, 8, 1)

BIND, CONNECT, UNAME = "bind", "connect", "uname"
_CALLS = {"x86_64": (49, 42, 63, 41), "aarch64": (200, 203, 160, 198), "riscv64": (200, 203, 160, 198)}
"""Numbers of bind, connect, uname and socket."""


class Call:
    """A system call that waits for its answer: its name, the thread that makes it, and its arguments."""

    __slots__ = ("arguments", "ident", "name", "pid")

    def __init__(self, ident: int, name: str, pid: int, arguments: tuple[int, ...]) -> None:
        self.ident = ident
        self.name = name
        self.pid = pid
        self.arguments = arguments


def program(machine: str, *, names: tuple[str, ...], refuse_ipv6: bool) -> bytes:
    """Return the filter that hands over the calls of these names; empty for a machine that is not known here.

    With `refuse_ipv6` there are no sockets of that family, as on a kernel without it.
    """
    if machine not in _CALLS or machine not in MACHINES:
        return b""
    architecture, _ = MACHINES[machine]
    bind, connect, uname, make_socket = _CALLS[machine]
    numbers = {BIND: bind, CONNECT: connect, UNAME: uname}
    out = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, ALLOW)]
    out.append((_LOAD, 0, 0, _NUMBER))
    for name in names:
        out += [(_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _NOTIFY)]
    if refuse_ipv6:
        out += [(_EQUAL, 0, 3, make_socket), (_LOAD, 0, 0, _ARGUMENT)]
        out += [(_EQUAL, 0, 1, socket.AF_INET6), (_RETURN, 0, 0, _NO_FAMILY)]
    out.append((_RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in out)


def listen(filter_: bytes) -> int:
    """Put this process and what it forks under the filter; return the listener's descriptor. Raises OSError.

    Takes no_new_privs. EBUSY: somebody listens to this process already.
    """
    return syscalls.filter_calls_with_listener(filter_)


def receive(listener: int) -> Call | None:
    """Return the next call; None when whoever made it has been killed meanwhile. Raises OSError."""
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
            return None
        raise
    ident, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    names = dict(zip(_CALLS[os.uname().machine], (BIND, CONNECT, UNAME), strict=False))
    return Call(ident, names[number], pid, tuple(arguments))


def is_waiting(listener: int, call: Call) -> bool:
    """Return whether the call still waits: its thread's number may be another's by now otherwise."""
    try:
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", call.ident))
    except OSError:
        return False
    return True


def carry_out(listener: int, call: Call) -> None:
    """Let the kernel do what the call asks for."""
    _respond(listener, _RESPONSE.pack(call.ident, 0, 0, _CONTINUE))


def answer(listener: int, call: Call, error: int = 0) -> None:
    """Return from the call: with 0, or with the number of an error."""
    _respond(listener, _RESPONSE.pack(call.ident, 0, -error, 0))


def _respond(listener: int, response: bytes) -> None:
    try:
        fcntl.ioctl(listener, _SEND, response)
    except OSError:
        return  # killed meanwhile


class Memory:
    """The memory of a thread that waits for an answer. Raises OSError where nobody may look."""

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes:
        """Return what is there. Raises OSError."""
        return os.pread(self._file, size, address)

    def write(self, address: int, data: bytes) -> None:
        """Replace what is there. Raises OSError."""
        os.pwrite(self._file, data, address)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)


def descriptor_of(pid: int, number: int) -> int:
    """Return a copy of a descriptor of another process (pidfd_getfd(2)). Raises OSError."""
    process = os.pidfd_open(pid)
    try:
        return syscalls.take_descriptor(process, number)
    finally:
        os.close(process)
