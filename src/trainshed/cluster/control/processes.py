"""Which processes make up the running cluster: for `status`, the benchmarks, and a stop without the disk."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import msgspec

from trainshed.cluster.control.launcher import Info, rss_bytes
from trainshed.cluster.paths import StatePaths

KILL_SECONDS = 15.0
"""How long what is killed may take to end, all in all."""


class Process(msgspec.Struct, frozen=True):
    """One process of the cluster's own; pods' processes are not listed, their shims are."""

    role: str
    pid: int
    rss_bytes: int


def cluster_processes(paths: StatePaths, info: Info | None) -> list[Process]:
    """Return the control plane, the daemons, the operator and the shims that belong to the state directory.

    The daemons are found by their name and what they were started with: the kernel knows better than a pid file.
    """
    found = [] if info is None else [Process("control plane", info.pid, rss_bytes(info.pid))]
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            role = _role(directory, str(paths.root))
            if role:
                pid = int(directory.name)
                found.append(Process(role, pid, rss_bytes(pid)))
    return sorted(found, key=lambda p: (_ORDER.index(p.role), p.pid))


def kill_all(paths: StatePaths, module: str) -> int:
    """Kill every process of the cluster, and return how many, without a look at the state directory: no file of it
    can be read. Pods end with their shims. `module` is that of the control plane.

    Raises TimeoutError: one does not end, as those do that wait for the disk.
    """
    deadline, killed = time.monotonic() + KILL_SECONDS, 0
    # Until none is left: one may have started another before it was killed.
    while found := [pid for pid in _pids() if _belongs(pid, str(paths.root), module)]:
        for pid in found:
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                if not _belongs(pid, str(paths.root), module):
                    continue  # the number is another's by now
                signal.pidfd_send_signal(process, signal.SIGKILL)
                if not select.select([process], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise TimeoutError(f"process {pid} does not end")
                killed += 1
            except ProcessLookupError:
                continue
            finally:
                os.close(process)
    return killed


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _belongs(pid: int, root: str, module: str) -> bool:
    directory = Path("/proc", str(pid))
    try:
        command = _command(directory)
    except OSError:
        return False
    return (module in command and "--home" in command and root in command) or _role(directory, root) != ""


_ORDER = ("control plane", "operator", "network daemon", "sandbox daemon", "shim")
_DAEMONS = {
    "trainshed-netd": "network daemon",
    "trainshed-sandboxd": "sandbox daemon",
    "trainshed-shim": "shim",
}
_NAME_BYTES = 15
"""How much of a process name the kernel keeps (proc(5), `comm`)."""
_ROLES = {name[:_NAME_BYTES]: role for name, role in _DAEMONS.items()}


def _role(directory: Path, root: str) -> str:
    """Return what part the process plays, or an empty string. `directory` is its `/proc/<pid>`."""
    try:
        role = _ROLES.get((directory / "comm").read_text().strip(), "")
        command = _command(directory)
        if role and any(word == root or word.startswith(f"{root}/") for word in command):
            return role
        # The operator is a pod like any other: what it runs, below a shim of this state directory.
        if "trainshed.operator" in command and _role(_parent(directory), root) == "shim":
            return "operator"
    except OSError:
        pass
    return ""


def _command(directory: Path) -> list[str]:
    return (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")


def _parent(directory: Path) -> Path:
    fields = (directory / "stat").read_text().rpartition(")")[2].split()
    return directory.parent / fields[1]
