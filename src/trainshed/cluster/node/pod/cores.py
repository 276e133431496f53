"""Which cores containers with a CPU limit run on, where the kernel does not keep limits: the least busy ones.

Nothing is kept on disk: after a restart the kernel is asked where the containers that run are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


class Cores:
    """The cores of this machine, by what is on them. A container is named by its pod's uid and its own name."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)
        self._taken: dict[tuple[str, str], tuple[int, ...]] = {}

    def take(self, uid: str, container: str, milli: int) -> tuple[int, ...]:
        """Return the cores for a limit in thousandths of a core, rounded up; none for all of them."""
        self._taken.pop((uid, container), None)
        count = -(-milli // 1000)
        if not milli or count >= len(self._cores):
            return ()
        load = dict.fromkeys(self._cores, 0)
        for cores in self._taken.values():
            for core in cores:
                load[core] = load.get(core, 0) + 1
        chosen = tuple(sorted(sorted(self._cores, key=lambda core: load[core])[:count]))
        self._taken[uid, container] = chosen
        return chosen

    def note(self, uid: str, container: str, pid: int) -> None:
        """Take over a container that runs already, `pid` its first process."""
        try:
            found = os.sched_getaffinity(pid)
        except OSError:
            return  # it has ended
        if len(found) < len(self._cores):
            self._taken[uid, container] = tuple(sorted(found))

    def release(self, uid: str, container: str = "") -> None:
        """Note that a container has ended, or all of a pod."""
        gone = [key for key in self._taken if key[0] == uid and container in ("", key[1])]
        for key in gone:
            del self._taken[key]
