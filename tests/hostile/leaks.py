"""Pods one after the other, and what each leaves behind: nothing may grow but what is bounded.

    python -m tests.hostile leaks --pods 2000

Counted before and after: descriptors of control plane, sandboxd and netd; processes of the cluster; namespaces;
mounts; links of the cluster's network; files of pods, in memory too; addresses given out. The control plane's memory
may grow until the window of the store is full, and then by the events of the last hour.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.jobs import pod
from tests.processes import processes_with
from trainshed.testing import until

BATCH = 10
"""Pods at once; one after the other would measure waiting."""
WARM_UP = 2
"""Batches before the first count: what is opened once is open then."""
WINDOW_PODS = 1500
WINDOW_BYTES_PER_POD = 384 << 10
"""Until so many pods have passed, the window of the store fills with what each of their changes looked like."""
BYTES_PER_POD = 64 << 10
"""After that: their events of the last hour."""
SPARE_BYTES = 32 << 20
LOOK_EVERY = 10
"""Batches between counts."""
SETTLE_SECONDS = 30.0
LINKS = """
import os, socket, sys
from trainshed.cluster.sandbox.linux import syscalls
found = {}
for name in os.listdir(f"/proc/{sys.argv[1]}/fd"):
    path = f"/proc/{sys.argv[1]}/fd/{name}"
    kind = os.readlink(path).partition(":")[0]
    if kind in ("user", "net"):
        found[kind] = os.open(path, os.O_RDONLY)
syscalls.setns(found["user"], syscalls.CLONE_NEWUSER)
syscalls.setns(found["net"], syscalls.CLONE_NEWNET)
print(len(socket.if_nameindex()))
"""


@dataclasses.dataclass(frozen=True)
class Footprint:
    """What the cluster holds of the machine."""

    control_plane_descriptors: int
    sandboxd_descriptors: int
    netd_descriptors: int
    processes: int
    namespaces: int
    mounts: int
    links: int
    pod_directories: int
    addresses: int

    def grown(self, before: Footprint) -> list[str]:
        """Return `what before→now` for all that has grown."""
        pairs = zip(dataclasses.asdict(before).items(), dataclasses.asdict(self).values(), strict=True)
        return [f"{name.replace('_', ' ')} {old}→{new}" for (name, old), new in pairs if new > old]


def footprint(cluster: Cluster) -> Footprint:
    """Count now."""
    pids = {role: found[0] for role, found in cluster.pids.items() if found}
    owned = processes_with(str(cluster.home))
    netd = pids["network daemon"]
    directories = list((cluster.home / "pods").iterdir())
    return Footprint(
        control_plane_descriptors=_descriptors(pids["control plane"]),
        sandboxd_descriptors=_descriptors(pids["sandbox daemon"]),
        netd_descriptors=_descriptors(netd),
        processes=len(owned),
        namespaces=len({link for pid in owned for link in _namespaces(pid)}),
        mounts=len(_mounts(cluster.home)),
        links=_links(netd),
        pod_directories=len(directories),
        addresses=len(list((cluster.home / "run" / "addresses").iterdir())),
    )


def _mounts(home: Path) -> list[str]:
    """Return the mounts of the machine that have to do with the cluster: others come and go."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(home) in line or "trainshed" in line]


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _namespaces(pid: int) -> set[str]:
    try:
        return {str(link.readlink()) for link in Path(f"/proc/{pid}/ns").iterdir()}
    except OSError:
        return set()


def _links(netd: int) -> int:
    """Return how many links the cluster's network has, which netd holds a descriptor of."""
    done = subprocess.run(
        [sys.executable, "-c", LINKS, str(netd)], capture_output=True, text=True, check=True, timeout=30
    )
    return int(done.stdout)


def resident_bytes(cluster: Cluster) -> int:
    """Return what the control plane takes."""
    return next(int(p["rss_bytes"]) for p in cluster.facts["processes"] if p["role"] == "control plane")


def run_batch(cluster: Cluster, number: int) -> None:
    """Make some pods, wait for their ends, delete them and wait until they are gone."""
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    names = {f"leak-{number}-{index}" for index in range(BATCH)}
    for name in sorted(names):
        obj = pod(name, "echo here > /disk/file; echo there > /memory/file")
        obj["spec"]["volumes"] = [
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ]
        obj["spec"]["containers"][0]["volumeMounts"] = [
            {"name": volume, "mountPath": f"/{volume}"} for volume in ("disk", "memory")
        ]
        status, _, body = cluster.api("POST", path, obj)
        assert status == 201, body

    def phases() -> list[str]:
        return [item["status"].get("phase", "") for item in cluster.get("pods")]

    until(lambda: set(phases()) == {"Succeeded"}, f"batch {number} Succeeded", 120)
    status, _, body = cluster.api("DELETE", f"{path}?gracePeriodSeconds=0")
    assert status == 200, body
    until(lambda: not cluster.get("pods"), f"batch {number} gone", 60)


def leaks(cluster: Cluster, pods: int) -> str:
    """Return a line of figures. Raises AssertionError at the first count at which something has grown."""
    began = time.monotonic()
    for number in range(WARM_UP):
        run_batch(cluster, number)
    before = settled(cluster, None)
    memory = Memory(resident_bytes(cluster))
    batches = max(1, pods // BATCH)
    for number in range(1, batches + 1):
        run_batch(cluster, WARM_UP + number)
        if number % LOOK_EVERY == 0 or number == batches:
            settled(cluster, before)
            memory.check(number * BATCH, resident_bytes(cluster))
    seconds = time.monotonic() - began
    counts = ", ".join(
        f"{name.replace('_', ' ')} {count}" for name, count in dataclasses.asdict(before).items()
    )
    return (
        f"leaks: {batches * BATCH} pods in {seconds:.0f} s, nothing grew ({counts}); "
        f"control plane {memory.first >> 20} MiB, then {memory.last >> 20} MiB"
    )


class Memory:
    """What the control plane takes, held against what it may take after so many pods."""

    def __init__(self, first: int) -> None:
        self.first = self.last = self._base = first
        self._since = 0

    def check(self, pods: int, now: int) -> None:
        """Raise AssertionError if `now` is more than the number of pods explains."""
        self.last = now
        per_pod = BYTES_PER_POD if self._since else WINDOW_BYTES_PER_POD
        allowed = self._base + SPARE_BYTES + per_pod * (pods - self._since)
        assert now <= allowed, (
            f"the control plane takes {now >> 20} MiB after {pods} pods, not {allowed >> 20}"
        )
        if not self._since and pods >= WINDOW_PODS:
            self._base, self._since = now, pods


def settled(cluster: Cluster, before: Footprint | None) -> Footprint:
    """Return the footprint once nothing is above `before`; without one, once two counts agree."""
    last: list[Footprint] = []

    def quiet() -> bool:
        last.append(footprint(cluster))
        if before is not None:
            return not last[-1].grown(before)
        return len(last) > 1 and last[-1] == last[-2]

    try:
        until(quiet, "a footprint that does not change", SETTLE_SECONDS)
    except AssertionError:
        if before is None:
            raise
        raise AssertionError(f"left behind: {', '.join(last[-1].grown(before))}") from None
    return last[-1]
