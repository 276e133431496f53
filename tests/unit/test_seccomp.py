"""The filter of system calls, run by an interpreter of the few instructions that it is made of."""

from __future__ import annotations

import errno
import struct

import pytest

from trainshed.cluster.sandbox.linux import seccomp
from trainshed.cluster.sandbox.linux.credentials import capability_set

X86, ARM, I386 = 0xC000003E, 0xC00000B7, 0x40000003
EPERM, ENOSYS = "EPERM", "ENOSYS"


def verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> str:
    """Return what the kernel would do about a call: an error's name, or nothing."""
    data = struct.pack("=IIQQQQQQQ", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, yes, no, value = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return {0x7FFF0000: ""}.get(value) or errno.errorcode.get(value & 0xFFFF, "")
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}[
                code
            ]
            at += yes if holds else no


def container(*add: str) -> bytes:
    return seccomp.program("x86_64", capability_set(False, list(add), []))


@pytest.mark.parametrize(
    ("number", "argument", "expected"),
    [
        (0, 0, ""),  # read
        (59, 0, ""),  # execve
        (101, 0, ""),  # ptrace
        (310, 0, ""),  # process_vm_readv
        (161, 0, ""),  # chroot: containers have SYS_CHROOT
        (466, 0, ""),
        (272, 0, EPERM),  # unshare
        (308, 0, EPERM),  # setns
        (165, 0, EPERM),  # mount
        (250, 0, EPERM),  # keyctl
        (321, 0, EPERM),  # bpf
        (323, 0, EPERM),  # userfaultfd
        (425, 0, EPERM),  # io_uring_setup
        (304, 0, EPERM),  # open_by_handle_at
        (438, 0, EPERM),  # pidfd_getfd
        (239, 0, EPERM),  # get_mempolicy
        (435, 0, ENOSYS),  # clone3
        (467, 0, ENOSYS),
        (0x40000000, 0, ENOSYS),  # read of x32
        (56, 0x11, ""),  # clone as fork has it
        (56, 0x3D0F00, ""),  # as threads have it
        (56, 0x10000011, EPERM),
        (56, 0x02000011, EPERM),
        (41, 1, ""),  # sockets: unix, vsock, alg
        (41, 40, EPERM),
        (41, 38, EPERM),
        (135, 0xFFFFFFFF, ""),  # personality
        (135, 0x0040000, EPERM),
    ],
)
def test_calls_of_a_usual_container(number: int, argument: int, expected: str) -> None:
    assert verdict(container(), X86, number, argument) == expected


@pytest.mark.parametrize(
    ("capability", "number", "argument"),
    [
        ("SYS_ADMIN", 272, 0),
        ("SYS_ADMIN", 165, 0),
        ("SYS_ADMIN", 435, 0),
        ("SYS_ADMIN", 56, 0x10000011),
        ("SYS_ADMIN", 321, 0),
        ("BPF", 321, 0),
        ("PERFMON", 298, 0),
        ("SYSLOG", 103, 0),
        ("SYS_NICE", 239, 0),
        ("SYS_PTRACE", 438, 0),
        ("SYS_TIME", 227, 0),
        ("DAC_READ_SEARCH", 304, 0),
    ],
)
def test_a_capability_brings_its_calls(capability: str, number: int, argument: int) -> None:
    assert verdict(container(), X86, number, argument) != ""
    assert verdict(container(capability), X86, number, argument) == ""


def test_without_sys_chroot_there_is_no_chroot() -> None:
    program = seccomp.program("x86_64", capability_set(False, [], ["SYS_CHROOT"]))
    assert verdict(program, X86, 161) == EPERM


def test_other_abis_have_no_calls() -> None:
    assert verdict(container(), I386, 3) == ENOSYS


def test_arm64_has_numbers_of_its_own() -> None:
    program = seccomp.program("aarch64", capability_set(False, [], []))
    assert verdict(program, ARM, 97) == EPERM  # unshare
    assert verdict(program, ARM, 272) == EPERM  # kcmp
    assert verdict(program, ARM, 63) == ""  # read
    assert verdict(program, ARM, 220, 0x10000011) == EPERM
    assert verdict(program, X86, 63) == ENOSYS


def test_a_machine_whose_numbers_are_not_known_has_no_filter() -> None:
    assert seccomp.program("s390x", 0) == b""
