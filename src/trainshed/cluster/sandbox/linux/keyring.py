"""The session keyring of a pod: its own, neither that of whoever started the cluster nor of another pod."""

from __future__ import annotations

import errno
import os

from trainshed.cluster.sandbox.linux import syscalls

_NO_KEYS = (errno.ENOSYS, errno.EPERM, errno.EACCES)


def leave_session_keyring() -> None:
    """Go on with a new, empty session keyring, where the keys of the old one (tickets, keys of disks) are not found.

    Nothing happens where the kernel refuses keys to everybody. Raises OSError; EDQUOT when the user may have no
    more keys (keyrings(7), /proc/sys/kernel/keys/maxkeys).
    """
    try:
        syscalls.join_session_keyring()
    except OSError as error:
        if error.errno not in _NO_KEYS:
            raise


def leave_keyring_of_pods() -> None:
    """As `leave_session_keyring`; a user who may have no more keys keeps the daemon's, which is empty to begin with.

    That is said in the log: pods that lift the filter of system calls could then see each other's keys.
    """
    try:
        leave_session_keyring()
    except OSError as error:
        if error.errno != errno.EDQUOT:
            raise
        os.write(2, f"a pod shares its session keyring with others: {error}\n".encode())
