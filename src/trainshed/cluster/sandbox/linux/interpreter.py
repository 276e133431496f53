"""The interpreter that the shims run, out of reach for writing.

A process that is about to become a pod's command still runs the host's interpreter: a script that begins with
`#!/proc/self/exe` gets hold of that very file (CVE-2019-5736). So the daemon that shims are forked from runs it
through a read-only mount, which nobody can find by a path: what is opened through /proc/self/exe is read-only, too.
"""

from __future__ import annotations

import os
import socket

from trainshed.cluster.sandbox.linux import syscalls

_LONGEST = 4096
"""Bytes of an answer: why there is no such mount."""


def open_read_only() -> tuple[int, socket.socket]:
    """Return a descriptor to execute this interpreter by, and what keeps its path readable until it is closed.

    The mount is made by a child in user and mount namespaces of its own: this process goes on seeing the host's. The
    dynamic loader looks for libraries beside the path of the program. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _offer(theirs)
            theirs.recv(1)
        finally:
            os._exit(0)
    theirs.close()
    # Not by `wire`: this is all that the launcher does, and half of what it would take in is JSON.
    failure, descriptors, _, _ = socket.recv_fds(ours, _LONGEST, 1)
    if not descriptors:
        ours.close()
        os.waitpid(pid, 0)
        raise OSError(failure.decode())
    os.set_inheritable(descriptors[0], False)  # `recv_fds` passes no flags on
    return descriptors[0], ours


def _offer(sock: socket.socket) -> None:
    try:
        path = os.readlink("/proc/self/exe")
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount(path, path, "", syscalls.MS_BIND)
        syscalls.make_read_only(path, recursive=False)
        program = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        sock.sendall(str(error).encode()[:_LONGEST])
    else:
        socket.send_fds(sock, [b"+"], [program])
