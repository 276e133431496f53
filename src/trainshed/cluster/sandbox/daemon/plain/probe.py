"""Tries what plain processes can have of the kernel; prints a JSON object for the doctor.

landlock   the version of its interface, 0 for none
steering   empty where sockets of pods can be steered, else what the kernel said
keepers    what keeps limits, in words
"""

from __future__ import annotations

import json
import os
import socket
import struct

from trainshed.cluster.sandbox.daemon import keepers
from trainshed.cluster.sandbox.daemon.plain.steering import named
from trainshed.cluster.sandbox.linux import landlock, notify, syscalls

_NAME = "trainshed-doctor"
_SECONDS = 5.0


def main(argv: list[str]) -> int:
    """Print the results."""
    found = {"landlock": landlock.version(), "steering": steering(), "keepers": keepers.of_plain()}
    print(json.dumps(found))  # noqa: T201 - read by `doctor`
    return 0


def steering() -> str:
    """Return why a call of another process cannot be looked at and changed; empty where it can."""
    filter_ = notify.program(os.uname().machine, names=(notify.UNAME,), refuse_ipv6=False)
    if not filter_:
        return f"the calls of {os.uname().machine} are not known"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_looked_at(theirs, filter_)
    theirs.close()
    ours.settimeout(_SECONDS)
    try:
        data, ancillary, _, _ = ours.recvmsg(256, socket.CMSG_SPACE(4))
        if not ancillary:
            return data.decode() or "the process ended"
        (listener,) = struct.unpack("i", ancillary[0][2])
        try:
            return _change(listener) or (
                "" if ours.recv(256) == _NAME.encode() else "the call was not changed"
            )
        finally:
            os.close(listener)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _be_looked_at(sock: socket.socket, filter_: bytes) -> None:
    try:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        listener = notify.listen(filter_)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", listener))]
        sock.sendmsg([b"listener"], rights)
        os.close(listener)
        sock.send(os.uname().nodename.encode())
    except OSError as error:
        sock.send((error.strerror or str(error)).encode())
    finally:
        os._exit(0)


def _change(listener: int) -> str:
    """Answer the one call; return what was in the way."""
    call = notify.receive(listener)
    if call is None:
        return "the process ended"
    try:
        memory = notify.Memory(call.pid)
        try:
            memory.write(call.arguments[0], named(_NAME))
        finally:
            memory.close()
    except OSError as error:
        notify.carry_out(listener, call)
        return f"the memory of another process of yours cannot be changed: {(error.strerror or '').lower()}"
    notify.answer(listener, call)
    return ""
