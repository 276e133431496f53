"""What a pod's processes use, from /proc, where there are no cgroups to ask."""

from __future__ import annotations

import os

_LOOKS = 4
_TICKS = os.sysconf("SC_CLK_TCK")


def pod_usage(roots: list[int], shim: int, idle: set[int]) -> tuple[float, int]:
    """Return (CPU seconds, bytes) of the containers whose first processes are `roots`.

    `shim` is the parent of those, of processes that joined, and of `idle` ones, which do not count. CPU counts ended
    descendants that were waited for. Memory is anonymous memory, plus the largest shared mapping set of one process:
    workers share it.
    """
    cpu, anonymous, shared = _sum(descendants({*roots, *children(shim)}.difference(idle)) - idle)
    return cpu, anonymous + shared


def container_usage(roots: list[int]) -> tuple[float, int, int]:
    """Return (CPU seconds, anonymous bytes, shared bytes) of processes and their descendants, counted as for a pod."""
    return _sum(descendants(set(roots)))


def _sum(pids: set[int]) -> tuple[float, int, int]:
    cpu, anonymous, shared = 0.0, 0, 0
    for pid in pids:
        cpu += _cpu_seconds(pid)
        private, common = _memory(pid)
        anonymous += private
        shared = max(shared, common)
    return cpu, anonymous, shared


def network_usage() -> tuple[int, int]:
    """Return bytes (received, sent) of this process's network, its loopback left out."""
    received = sent = 0
    with open("/proc/thread-self/net/dev") as file:
        for line in file:
            name, colon, counts = line.partition(":")
            fields = counts.split()
            if colon and name.strip() != "lo":
                received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def held_bytes(roots: list[int], limit: int, in_files: int) -> int:
    """Return the memory that processes and their descendants cannot give back: anonymous and shared.

    `in_files` is what they have in file systems in memory. What they map of that is shared memory, and counts once.
    Workers that were forked share pages. What their kernel counts for each is cheap to read and too much, so it only
    says that they stay below `limit`; above, each page is divided among those that have it. Where one has come or gone
    meanwhile, the shares do not belong together, and all are looked at again, but not for ever.
    """
    pids = descendants(set(roots))
    found = [_memory(pid) for pid in pids]
    held = sum(private for private, _ in found) + max(in_files, *(common for _, common in found), 0)
    for _ in range(_LOOKS):
        if held <= limit:
            break
        shares = [_share(pid) for pid in pids]
        held = sum(private for private, _ in shares) + max(in_files, sum(common for _, common in shares))
        before, pids = pids, descendants(set(roots))
        if pids == before:
            break
    return held


def crowd(roots: list[int], most: int) -> int:
    """Return how many processes and descendants of them there are; counted up to a few more than `most`."""
    return len(descendants(set(roots), most))


def descendants(pids: set[int], most: float = float("inf")) -> set[int]:
    """Return processes with all below them; with `most`, about so many."""
    found, queue = set(pids), list(pids)
    while queue and len(found) <= most:
        for child in children(queue.pop()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found


def _share(pid: int) -> tuple[int, int]:
    """Return a process's share of (anonymous, shared) bytes that it maps; all of them where the kernel does not say."""
    found = {"Pss_Anon": 0, "Pss_Shmem": 0}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in found:
                    found[name] = int(value.split()[0]) * 1024
    except OSError:
        return _memory(pid)
    return found["Pss_Anon"], found["Pss_Shmem"]


def children(pid: int) -> set[int]:
    """Return the processes that a process with one thread is the parent of."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return {int(number) for number in file.read().split()}
    except OSError:
        return set()


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
