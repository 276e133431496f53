"""What a pod's processes use, from /proc: an unprivileged user has no cgroups to ask."""

from __future__ import annotations

import os

_TICKS = os.sysconf("SC_CLK_TCK")


def pod_usage(roots: list[int], shim: int) -> tuple[float, int]:
    """Return (CPU seconds, bytes) of the containers whose first processes are `roots`.

    `shim` is the parent of those and of processes that joined. CPU counts ended descendants that were
    waited for. Memory is anonymous memory, plus the largest shared mapping set of one process: workers
    share it.
    """
    pids = set(roots)
    for child in _children(shim):
        pids.add(child)
    queue = list(pids)
    while queue:
        for child in _children(queue.pop()):
            if child not in pids:
                pids.add(child)
                queue.append(child)
    cpu, anonymous, shared = 0.0, 0, 0
    for pid in pids:
        cpu += _cpu_seconds(pid)
        private, common = _memory(pid)
        anonymous += private
        shared = max(shared, common)
    return cpu, anonymous + shared


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(number) for number in file.read().split()]
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS  # utime, stime, cutime, cstime


def _memory(pid: int) -> tuple[int, int]:
    """Return (anonymous, shared) bytes."""
    found = {"RssAnon": 0, "RssShmem": 0}
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in found:
                    found[name] = int(value.split()[0]) * 1024
    except OSError:
        pass
    return found["RssAnon"], found["RssShmem"]
