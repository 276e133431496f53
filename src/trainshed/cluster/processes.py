"""Which processes make up the running cluster, for `status` and the benchmarks."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainshed.cluster.launcher import Info, rss_bytes
from trainshed.cluster.paths import StatePaths


class Process(msgspec.Struct, frozen=True):
    """One process of the cluster's own; pods' processes are not listed, their shims are."""

    role: str
    pid: int
    rss_bytes: int


def cluster_processes(paths: StatePaths, info: Info | None) -> list[Process]:
    """Return the control plane, the daemons, the operator and the shims that belong to the state directory.

    The daemons are found by what they have open or were started with: the kernel knows better than a pid file.
    """
    found = [] if info is None else [Process("control plane", info.pid, rss_bytes(info.pid))]
    own = {process.pid for process in found}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) in own:
            continue
        role = _role(directory, str(paths.root))
        if role:
            pid = int(directory.name)
            found.append(Process(role, pid, rss_bytes(pid)))
    return sorted(found, key=lambda p: (_ORDER.index(p.role), p.pid))


_ORDER = ("control plane", "operator", "network daemon", "sandbox daemon", "shim")


def _role(directory: Path, root: str) -> str:
    """Return what part the process plays, or an empty string."""
    try:
        name = (directory / "comm").read_text().strip()
        command = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if name.startswith("ts-") and root in " ".join(command):
            return {"ts-netd": "network daemon", "ts-sandboxd": "sandbox daemon", "ts-shim": "shim"}.get(
                name, ""
            )
        if "trainshed.operator" in command and f"TRAINSHED_HOME={root}" in _environment(directory):
            return "operator"
    except OSError:
        pass
    return ""


def _environment(directory: Path) -> list[str]:
    try:
        return (directory / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
