"""Keeps the cluster's DNS zone true: watches services, is told of pods by their node.

A pod's node calls `publish` and waits for it before it writes that the pod is ready: whoever sees a ready
pod finds its name. Changes that arrive together are pushed together.

Each push is of the whole zone. So the time between two grows with what one takes: of thousands of services that are
made one by one, a constant share of the time goes into their names.
"""

from __future__ import annotations

import asyncio
import logging

from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.node.dns_records import dns_records
from trainshed.cluster.sandbox.api import DnsRecords, Runtime, RuntimeLost
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.pods import is_finished, is_ready
from trainshed.kube.meta.resources import ENDPOINTSLICES, SERVICES

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.003
PAUSE = 4
"""Between two pushes, so many times as long as the last one took: a fifth of the time may go into them."""
RETRY_SECONDS = 0.5
PUBLISH_SECONDS = 2.0
"""A pod's status is not held back longer than this for its name."""
CONTROLLER_LABEL = "endpointslice.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"


class NetworkController:
    """One per cluster. `informers` are run by their owner."""

    def __init__(self, runtime: Runtime, informers: SharedInformers, *, domain: str) -> None:
        self._runtime = runtime
        self._domain = domain
        self._services = informers.of(SERVICES)
        self._slices = informers.of(ENDPOINTSLICES)
        self._users_slices = self._slices.index(lambda obj: ["user"] if _is_users(obj) else [])
        self._pods: dict[str, Object] = {}
        self._pushed: DnsRecords | None = None
        self._dirty = asyncio.Event()
        self._complete = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._services.add_handler(lambda kind, old, new: self._dirty.set())
        self._slices.add_handler(self._slice_changed)

    async def run(self) -> None:
        """Push records until cancelled, the first ones after `complete`."""
        await asyncio.gather(self._services.wait_synced(), self._slices.wait_synced(), self._complete.wait())
        self._dirty.set()
        loop, not_before = asyncio.get_running_loop(), 0.0
        while True:
            await self._dirty.wait()
            await asyncio.sleep(max(GATHER_SECONDS, not_before - loop.time()))
            began = loop.time()
            await self._push()
            ended = loop.time()
            # Never so long that a pod that waits for its name gives up.
            not_before = ended + min(PAUSE * (ended - began), PUBLISH_SECONDS / 2)

    def _slice_changed(self, kind: str, old: Object | None, new: Object) -> None:
        if _is_users(new) or (old is not None and _is_users(old)):
            self._dirty.set()

    def complete(self) -> None:
        """Take note that every pod that runs is known. Before, nothing is pushed: after a restart the server
        still has the records of before, and they are better than an empty zone."""
        self._complete.set()

    def note(self, pod: Object) -> None:
        """Take a pod that was ready before this process began; pushed with the next change."""
        self._pods.setdefault(pod["metadata"]["uid"], pod)
        self._dirty.set()

    async def publish(self, pod: Object) -> None:
        """Make the records say what `pod`'s status says, and return when they do."""
        uid = pod["metadata"]["uid"]
        old = self._pods.get(uid)
        self._pods[uid] = pod
        if old is not None and _relevant(old) == _relevant(pod):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._dirty.set()
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await done
        except TimeoutError:
            log.warning("DNS records not confirmed", extra={"pod": uid})

    def forget(self, uid: str) -> None:
        """Drop a pod that is no more."""
        if self._pods.pop(uid, None) is not None:
            self._dirty.set()

    async def _push(self) -> None:
        self._dirty.clear()
        waiting, self._waiting = self._waiting, []
        records = dns_records(
            self._services.items(), self._users_slices.get("user"), self._pods.values(), domain=self._domain
        )
        try:
            if records != self._pushed:
                await self._runtime.set_records(records)
                self._pushed = records
        except (RuntimeLost, OSError) as error:
            log.warning("DNS records not updated", extra={"error": str(error)})
            self._dirty.set()
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            # Nobody waits for a DNS server that is away: a pod's status is worth more than its name.
            for done in waiting:
                if not done.done():
                    done.set_result(None)


def _is_users(endpoint_slice: Object) -> bool:
    """Return whether a user made the slice. Those of the controller say no more than the pods do."""
    labels = section(endpoint_slice["metadata"], "labels")
    return labels.get(CONTROLLER_LABEL) != CONTROLLER_NAME


def _relevant(pod: Object) -> tuple[object, ...]:
    """Return what the records depend on."""
    metadata, spec, status = pod["metadata"], pod["spec"], status_of(pod)
    return (
        metadata.get("labels"),
        bool(metadata.get("deletionTimestamp")),
        spec.get("hostname"),
        spec.get("subdomain"),
        status.get("podIP"),
        is_finished(pod),
        is_ready(pod),
    )
