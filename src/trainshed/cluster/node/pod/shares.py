"""Who yields to whom where no cgroup keeps shares of CPU time: to the largest request of those that run. No I/O.

By itself a pod competes as any process of the user does, whatever it requests: what is given up for nobody is lost.
"""

from __future__ import annotations

from collections.abc import Callable


class Shares:
    """The requests of containers that run, in thousandths of a core. `changed` is called when the largest is another.

    A container is named by its pod's uid and its own name.
    """

    def __init__(self) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._requests: dict[tuple[str, str], int] = {}
        self._told: dict[str, int] = {}

    @property
    def largest(self) -> int:
        """The largest request, 0 without any."""
        return max(self._requests.values(), default=0)

    def take(self, uid: str, container: str, request: int) -> int:
        """Return the largest request for a container that is about to start."""
        self._set(uid, container, request)
        self._told.setdefault(uid, self.largest)
        return self.largest

    def note(self, uid: str, container: str, request: int) -> None:
        """Take over a container that runs already: what its pod was told is not known."""
        self._set(uid, container, request)
        self._told[uid] = -1

    def release(self, uid: str, container: str = "") -> None:
        """Note that a container has ended, or all of a pod."""
        before = self.largest
        for key in [key for key in self._requests if key[0] == uid and container in ("", key[1])]:
            del self._requests[key]
        if not container:
            self._told.pop(uid, None)
        self._compare(before)

    def behind(self) -> list[str]:
        """Return the pods that have not been told what the largest request is."""
        return [uid for uid, told in self._told.items() if told != self.largest]

    def told(self, uid: str, largest: int) -> None:
        """Note that a pod knows."""
        if uid in self._told:
            self._told[uid] = largest

    def _set(self, uid: str, container: str, request: int) -> None:
        before = self.largest
        self._requests[uid, container] = request
        self._compare(before)

    def _compare(self, before: int) -> None:
        if self.largest != before:
            self.changed()
