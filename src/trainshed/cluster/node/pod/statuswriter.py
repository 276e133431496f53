"""Writes a pod's status: the newest one only, one PATCH at a time, nothing when nothing changed.

A status that only says "on its way" is held for a moment: most pods run before it would have been written,
init containers included, and a write saved is time for another pod. Events follow the write that they explain.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.cluster.node.pod.status import changed
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.resources import PODS

log = logging.getLogger(__name__)

HOLD_SECONDS = 0.1
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.1, 5.0
BLAND_REASONS = ("ContainerCreating", "PodInitializing")


class StatusWriter:
    """The status of one pod. `publish` is awaited before each write (the DNS records of a ready pod)."""

    def __init__(self, client: Client, pod: Object, publish: Callable[[Object], Awaitable[None]]) -> None:
        metadata = pod["metadata"]
        self._client = client
        self._name, self._namespace, self._uid = metadata["name"], metadata["namespace"], metadata["uid"]
        self._publish = publish
        self._written: Object = dict(status_of(pod))
        self._pending: Object | None = None
        self._after: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, status: Object | None, after: list[Callable[[], None]]) -> None:
        """Write `status` soon unless it is None, then call `after`, which follow a write that is still to come."""
        self._after += after
        if status is None or (not changed(self._pending or self._written, status) and self._pending is None):
            if self._task is None and self._pending is None:
                self._run_after()
            return
        self._pending = status
        if is_bland(status):
            if self._timer is None and self._task is None:
                self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._start)
        else:
            self._start()

    async def flush(self) -> None:
        """Return when everything submitted is written, or cannot be."""
        self._start()
        if self._task is not None:
            await asyncio.shield(self._task)

    def close(self) -> None:
        """Forget what is not written."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None and (self._pending is not None or self._after):
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while self._pending is not None:
                status, self._pending = self._pending, None
                if changed(self._written, status):
                    await self._publish(status)
                    await self._write(status)
            self._run_after()
        finally:
            self._task = None

    async def _write(self, status: Object) -> None:
        delay = FIRST_RETRY_SECONDS
        patch = {"metadata": {"uid": self._uid}, "status": status}
        while True:
            try:
                await self._client.patch(PODS, self._name, self._namespace, patch, subresource="status")
            except ApiError as error:
                if error.code in (404, 409, 422):
                    # The pod is gone or another one has its name; 422 would be ours to fix.
                    level = logging.ERROR if error.code == 422 else logging.DEBUG
                    log.log(level, "pod status refused", extra={"pod": self._name, "error": str(error)})
                    self._written = status
                    return
            except TransportError:
                pass
            else:
                self._written = status
                return
            if self._pending is not None:
                return  # a newer status replaces the one that could not be written
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)

    def _run_after(self) -> None:
        calls, self._after = self._after, []
        for call in calls:
            call()


def is_bland(status: Object) -> bool:
    """Return whether the status tells no more than that the pod is on its way: nothing failed, nothing was
    repeated, and no main container has started."""
    inits, mains = status.get("initContainerStatuses") or (), status.get("containerStatuses") or ()
    return status.get("phase") == "Pending" and all(
        _is_waiting(s) or (s in inits and _goes_well(s)) for s in (*inits, *mains)
    )


def _is_waiting(container: Object) -> bool:
    reason = section(container["state"], "waiting").get("reason")
    return reason in BLAND_REASONS and not container["restartCount"]


def _goes_well(container: Object) -> bool:
    state = container["state"]
    ended = state.get("terminated")
    return not container["restartCount"] and (
        "running" in state or (ended is not None and ended["exitCode"] == 0)
    )
