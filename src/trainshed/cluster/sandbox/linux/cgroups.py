"""cgroups of version 2, where this user may make some: the kernel then keeps what containers may use.

    <base>/                        a scope of systemd's that is delegated to this user, or root's own
        daemons                    sandboxd and the shims: only leaves may have processes
        pods/<uid>/                pids.max
            <name>-<attempt>       cpu.max, cpu.weight, memory.max; what `kubectl exec` starts is in it, too

Names and formats of the files: the kernel's admin-guide/cgroup-v2.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONTROLLERS = ("cpu", "memory", "pids")
_PERIOD = 100_000  # microseconds, as in the kubelet (cpuCFSQuotaPeriod)
_LEAST_QUOTA = 1_000


class Hierarchy:
    """Where pods have their cgroups, and which of `CONTROLLERS` count in them; `origin` is where this process was."""

    __slots__ = ("controllers", "origin", "pods")

    def __init__(self, pods: str, controllers: tuple[str, ...], origin: str = "") -> None:
        self.pods = pods
        self.controllers = controllers
        self.origin = origin

    def has(self, controller: str) -> bool:
        """Return whether the kernel keeps limits of this kind."""
        return controller in self.controllers


def take(name: str) -> Hierarchy | None:
    """Divide the cgroup of this process, which leaves it for one below, or root's; None where that is not possible.

    A cgroup with processes of others in it is left alone: only one that was made for the sandboxes is divided.
    `name` tells clusters of the machine's root apart.
    """
    own = own_cgroup()
    try:
        if own is None or not _offered(own):
            return None
        if not os.path.exists(
            f"{own}/cgroup.type"
        ):  # the hierarchy's root: it may have processes and cgroups below
            base = f"{own}/{name}"
            _enable(own)
            os.makedirs(base, exist_ok=True)
        else:
            base = own
            if set(_numbers(f"{base}/cgroup.procs")) - {os.getpid(), os.getppid()}:
                return None  # others' too
        daemons = f"{base}/daemons"
        os.makedirs(daemons, exist_ok=True)
        for number in _numbers(f"{own}/cgroup.procs") if base == own else (os.getpid(),):
            _write(f"{daemons}/cgroup.procs", str(number))
        _enable(base)
        pods = f"{base}/pods"
        os.makedirs(pods, exist_ok=True)
        _enable(pods)
    except OSError:
        return None
    controllers = tuple(name for name in CONTROLLERS if name in _words(f"{pods}/cgroup.subtree_control"))
    return Hierarchy(pods, controllers, own) if controllers else None


def own_cgroup(proc: str = "/proc/self") -> str | None:
    """Return the directory of this process's cgroup; None without a hierarchy of version 2."""
    path = mount = ""
    with open(f"{proc}/cgroup") as file:
        for line in file:
            if line.startswith("0::"):
                path = line[3:].strip()
    with open(f"{proc}/mountinfo") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            if rest.split()[0] == "cgroup2":
                _, _, _, root, mount = fields.split()[:5]
                if root != "/":
                    path = path.removeprefix(root)
                break
    return (mount + path).rstrip("/") if path and mount else None


def leave(hierarchy: Hierarchy) -> None:
    """Remove what `take` made but for what is in use; a scope of systemd's goes with its last process."""
    base = os.path.dirname(hierarchy.pods)
    if base == hierarchy.origin:
        return
    try:
        enter(hierarchy.origin)
    except OSError:
        return
    remove(base)


def make_pod(hierarchy: Hierarchy, uid: str, pids: int) -> str:
    """Return the cgroup of a pod, which may have `pids` processes and threads; 0 for any number. Raises OSError."""
    group = f"{hierarchy.pods}/{uid}"
    os.makedirs(group, exist_ok=True)
    _enable(group)
    if hierarchy.has("pids"):
        _write(f"{group}/pids.max", str(pids or "max"))
    return group


def make_container(hierarchy: Hierarchy, pod: str, name: str, limits: dict[str, int]) -> str:
    """Return the cgroup of one attempt of a container.

    `limits`: `memory` in bytes, `cpu` and `cpu_request` in thousandths of a core, 0 for none. Raises OSError.
    """
    group = f"{pod}/{name}"
    os.makedirs(group, exist_ok=True)
    set_limits(hierarchy.controllers, group, limits)
    return group


def set_limits(controllers: Sequence[str], group: str, limits: dict[str, int]) -> None:
    """Let a container have these limits, see `make_container`, as far as there are controllers. Raises OSError."""
    if "cpu" in controllers:
        _write(f"{group}/cpu.weight", str(cpu_weight(limits["cpu_request"] or limits["cpu"])))
        _write(f"{group}/cpu.max", cpu_max(limits["cpu"]))
    if "memory" in controllers:
        _write(f"{group}/memory.max", str(limits["memory"] or "max"))
        _write(f"{group}/memory.oom.group", "1")
        if limits["memory"] and os.path.exists(f"{group}/memory.swap.max"):
            _write(f"{group}/memory.swap.max", "0")


def enter(group: str) -> None:
    """Move this process into a cgroup. Raises OSError."""
    _write(f"{group}/cgroup.procs", "0")


def killed_for_memory(group: str) -> int:
    """Return how many bytes a container held when the kernel ended it for its limit; 0 if it did not."""
    events = _table(f"{group}/memory.events")
    if not events.get("oom_kill"):
        return 0
    numbers = [
        int(text) for text in (_read(f"{group}/memory.peak"), _read(f"{group}/memory.max")) if text.isdigit()
    ]
    return max(numbers, default=1)


def usage(group: str) -> tuple[float, int]:
    """Return (CPU seconds, bytes of the working set: all memory but files that are not in use)."""
    cpu = _table(f"{group}/cpu.stat").get("usage_usec", 0) / 1e6
    held = _read(f"{group}/memory.current")
    idle = _table(f"{group}/memory.stat").get("inactive_file", 0)
    return cpu, max(0, int(held) - idle) if held else 0


def anonymous(group: str) -> int:
    """Return bytes of memory that is no file's."""
    return _table(f"{group}/memory.stat").get("anon", 0)


def remove(group: str) -> None:
    """Remove a cgroup that has no processes, and those below it; what is in use stays."""
    try:
        below = [entry.path for entry in os.scandir(group) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in below:
        remove(path)
    try:
        os.rmdir(group)
    except OSError:
        pass


def cpu_max(milli: int) -> str:
    """Return `cpu.max` for a limit in thousandths of a core; 0 is no limit."""
    if not milli:
        return f"max {_PERIOD}"
    return f"{max(_LEAST_QUOTA, milli * _PERIOD // 1000)} {_PERIOD}"


def cpu_weight(milli: int) -> int:
    """Return `cpu.weight` for a request in thousandths of a core, as the kubelet converts it (KEP-2254)."""
    shares = min(262_144, max(2, milli * 1024 // 1000))
    return 1 + (shares - 2) * 9999 // 262_142


def _offered(group: str) -> set[str]:
    return set(CONTROLLERS) & set(_words(f"{group}/cgroup.controllers"))


def _enable(group: str) -> None:
    """Let the cgroups below have what this one has; one at a time, for some may be refused."""
    for name in sorted(_offered(group) - set(_words(f"{group}/cgroup.subtree_control"))):
        try:
            _write(f"{group}/cgroup.subtree_control", f"+{name}")
        except OSError:
            continue


def _numbers(path: str) -> list[int]:
    return [int(word) for word in _words(path)]


def _words(path: str) -> list[str]:
    return _read(path).split()


def _table(path: str) -> dict[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
