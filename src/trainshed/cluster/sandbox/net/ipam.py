"""Addresses of pods. One file per address in use, named after it and holding the pod's uid.

A file is created with O_EXCL before the pod exists and deleted when its shim has ended, so an address is
never used twice at once, whichever process was killed in between.
"""

from __future__ import annotations

import os

from trainshed.cluster.sandbox.addresses import FIRST_POD, LAST_POD, POD_PREFIX, pod_address, pod_number

DIRECTORY = "addresses"


class AddressPool:
    """Hands out addresses of the pods' network in order, so that a released one rests as long as possible."""

    def __init__(self, directory: str, pods: str, prefix: str = POD_PREFIX) -> None:
        """Take up the addresses recorded in `directory`, less those of pods without a trace in `pods`."""
        self._directory = directory
        self._prefix = prefix
        os.makedirs(directory, 0o700, exist_ok=True)
        used = []
        for ip in os.listdir(directory):
            with open(f"{directory}/{ip}") as file:
                uid = file.read()
            if uid and os.path.exists(f"{pods}/{uid}/sandbox"):
                used.append(pod_number(ip))
            else:
                os.unlink(f"{directory}/{ip}")
        self._last = max(used, default=FIRST_POD - 1)

    def allocate(self, uid: str) -> str:
        """Return a free address, recorded as used by `uid`. Raises OSError when none is left."""
        for step in range(1, LAST_POD - FIRST_POD + 2):
            number = (self._last - FIRST_POD + step) % (LAST_POD - FIRST_POD + 1) + FIRST_POD
            ip = pod_address(number, self._prefix)
            try:
                fd = os.open(f"{self._directory}/{ip}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            os.write(fd, uid.encode())
            os.close(fd)
            self._last = number
            return ip
        raise OSError(f"no pod address is left in {self._prefix}0.0/16")


def release(directory: str, ip: str, uid: str) -> None:
    """Free `ip` if it is the pod's. Safe to repeat."""
    path = f"{directory}/{ip}"
    try:
        if owner(directory, ip) == uid:
            os.unlink(path)
    except FileNotFoundError:
        return


def owner(directory: str, ip: str) -> str:
    """Return the uid of the pod that has `ip`; empty when none has."""
    try:
        with open(f"{directory}/{ip}") as file:
            return file.read()
    except FileNotFoundError:
        return ""
