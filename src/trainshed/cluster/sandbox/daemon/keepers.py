"""What keeps the limits of containers here, in words for `status` and `doctor`."""

from __future__ import annotations

from trainshed.cluster.sandbox.linux.limits import has_pids_per_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.linux.cgroups import Hierarchy
    from trainshed.cluster.sandbox.wire import Message

_ELSE = {
    "cpu": "affinity: whole cores; requests by nice, 0 to 5 beside larger ones",
    "memory": "watchdog, 4 looks a second",
    "pids": "watchdog, 4 looks a second",
    "ephemeral-storage": "measured every 2 s, eviction",
}
_FILES = {"cpu": "cpu.max and cpu.weight", "memory": "memory.max", "pids": "pids.max"}


def of_plain() -> Message:
    """Return the fields of `Keepers` where pods are plain processes."""
    return dict(_ELSE)


def of(hierarchy: Hierarchy | None) -> Message:
    """Return the fields of `Keepers`; without `hierarchy` there are no cgroups."""
    found = dict(_ELSE)
    if has_pids_per_namespace():
        found["pids"] = "pid namespace (kernel.pid_max)"
    for name, file in _FILES.items():
        if hierarchy is not None and hierarchy.has(name):
            found[name] = f"cgroup: {file}"
    return found
