"""Keeps the cluster's DNS zone true: watches services, is told of pods by their node.

A pod's node calls `publish` and waits for it before it writes that the pod is ready: whoever sees a ready
pod finds its name. Changes that arrive together are pushed together.
"""

from __future__ import annotations

import asyncio
import logging

from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.cluster.node.dns_records import dns_records
from trainshed.cluster.sandbox.api import DnsRecords, Runtime, RuntimeLost
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import is_finished, is_ready
from trainshed.kube.meta.resources import ENDPOINTSLICES, SERVICES

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.003
RETRY_SECONDS = 0.5
PUBLISH_SECONDS = 2.0
"""A pod's status is not held back longer than this for its name."""
CONTROLLER_LABEL = "endpointslice.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"


class DnsController:
    """One per cluster. `services` may be shared with others; `run` watches what is not given."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        *,
        services: Informer | None = None,
        domain: str = "cluster.local",
    ) -> None:
        self._runtime = runtime
        self._domain = domain
        self._own_services = services is None
        self.services = services or Informer(client, SERVICES)
        # Slices that the controller makes say no more than the pods do; those of users stand alone.
        self._slices = Informer(
            client, ENDPOINTSLICES, label_selector=f"{CONTROLLER_LABEL}!={CONTROLLER_NAME}"
        )
        self._pods: dict[str, Object] = {}
        self._pushed: DnsRecords | None = None
        self._dirty = asyncio.Event()
        self._unadopted = 0
        self._adopted = asyncio.Event()
        self._adopted.set()
        self._waiting: list[asyncio.Future[None]] = []
        for informer in (self.services, self._slices):
            informer.add_handler(lambda kind, old, new: self._dirty.set())

    async def run(self) -> None:
        """Push records until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._own_services:
                group.create_task(self.services.run())
            group.create_task(self._slices.run())
            await self.services.wait_synced()
            await self._adopted.wait()
            self._dirty.set()
            while True:
                await self._dirty.wait()
                await asyncio.sleep(GATHER_SECONDS)
                await self._push()

    def expect_node(self) -> None:
        """Push nothing until this node, too, has said which of its pods run: after a restart the server
        still has the records of before, and they are better than an empty zone."""
        self._unadopted += 1
        self._adopted.clear()

    def node_adopted(self) -> None:
        """Take note that one node has said so."""
        self._unadopted -= 1
        if self._unadopted <= 0:
            self._adopted.set()

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
            self.services.items(), self._slices.items(), self._pods.values(), domain=self._domain
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


def _relevant(pod: Object) -> tuple[object, ...]:
    """Return what the records depend on."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    return (
        metadata.get("labels"),
        bool(metadata.get("deletionTimestamp")),
        spec.get("hostname"),
        spec.get("subdomain"),
        status.get("podIP"),
        is_finished(pod),
        is_ready(pod),
    )
