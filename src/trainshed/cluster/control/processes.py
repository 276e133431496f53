"""Which processes make up the running cluster, for `status` and the benchmarks."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainshed.cluster.control.launcher import Info, rss_bytes
from trainshed.cluster.paths import StatePaths


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
