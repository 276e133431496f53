"""Keeps the cluster's DNS zone and the routes of Services true: watches services, is told of pods by their node.

A pod's node calls `publish` and waits for it before it writes that the pod is ready: whoever sees a ready
pod finds its name, and reaches it by its Services. Changes that arrive together are pushed together.

Each push is of everything. So the time between two grows with what one takes: of thousands of services that are
made one by one, a constant share of the time goes into their names and routes. Before a pod's first container starts,
the names of its namespace's Services are known to the DNS server, which lets whoever asks for one wait for its address:
a program that was told that there is no such name sleeps before it asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.cluster.node.backends import Backends, concerns
from trainshed.cluster.node.dns_records import Zone
from trainshed.cluster.node.service_routes import Routing, has_routes, ingress, is_local, routing
from trainshed.cluster.sandbox.api import DnsRecords, Place, Runtime, RuntimeLost
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished, is_ready
from trainshed.kube.meta.resources import ENDPOINTSLICES, SERVICES

if TYPE_CHECKING:
    from trainshed.cluster.node.service_health import HealthPorts

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.001
PAUSE = 9
"""Between two pushes, so many times as long as the last one took: a tenth of the time may go into them."""
PATIENT_PAUSE = 29
"""The same while no pod waits for its name: a thirtieth."""
LOOK_BACK = 3
"""What a push takes is the least of so many: one of them may have waited for a busy machine."""
RETRY_SECONDS = 0.5
RETRY_PORT_SECONDS = 2.0
"""When a port of the machine that another program has is tried again. The first time it may be one that is only just
being closed, and is no news."""
PUBLISH_SECONDS = 2.0
"""A pod's status is not held back longer than this for its name."""
CONTROLLER_LABEL = "endpointslice.kubernetes.io/managed-by"
HEALTH_PORT = "healthCheckNodePort"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"


class NetworkController:
    """One per cluster. `informers` are run by their owner."""

    def __init__(
        self,
        runtime: Runtime,
        client: Client,
        informers: SharedInformers,
        recorder: EventRecorder,
        *,
        domain: str,
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._recorder = recorder
        self._zone = Zone(domain)
        self._services = informers.of(SERVICES)
        self._by_namespace = self._services.index(lambda obj: [obj["metadata"]["namespace"]])
        self._slices = informers.of(ENDPOINTSLICES)
        self._users_slices = self._slices.index(lambda obj: ["user"] if _is_users(obj) else [])
        self._local = self._services.index(lambda obj: ["local"] if is_local(obj) else [])
        self._clients: dict[str, tuple[str, str]] = {}
        """Node and address of each pod, by its uid, from before its first container starts."""
        self._pods: dict[str, Object] = {}
        self._pushed: DnsRecords | None = None
        self._routing = Routing()
        self._refused: dict[Place, str] = {}
        """Ports of the machine that could not be had at the last try."""
        self._routed = False
        self._health: HealthPorts | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._dirty = asyncio.Event()
        self._complete = asyncio.Event()
        self._awaited = asyncio.Event()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """Which push each waits for."""
        self._begun = 0
        """Number of the last push that began."""
        self._unnamed: dict[str, int] = {}
        """Namespaces with Services that the DNS server has not heard of, and the push that tells it."""
        self._services.add_handler(self._service_changed)
        self._slices.add_handler(self._slice_changed)

    async def run(self) -> None:
        """Push records until cancelled, the first ones after `complete`."""
        await asyncio.gather(self._services.wait_synced(), self._slices.wait_synced(), self._complete.wait())
        self._dirty.set()
        loop = asyncio.get_running_loop()
        takes: deque[float] = deque(maxlen=LOOK_BACK)
        took, ended = 0.0, loop.time()
        while True:
            await self._dirty.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(ended + _pause(took * PATIENT_PAUSE)):
                    await self._awaited.wait()
            await asyncio.sleep(max(GATHER_SECONDS, ended + _pause(took * PAUSE) - loop.time()))
            began = loop.time()
            await self._push()
            ended = loop.time()
            takes.append(ended - began)
            took = min(takes)

    def _service_changed(self, kind: str, old: Object | None, new: Object) -> None:
        if old is None:
            self._unnamed[namespace_of(new)] = self._begun + 1
        self._dirty.set()

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
        self._add_client(pod, str(status_of(pod).get("podIP") or ""))
        self._dirty.set()

    async def join(self, pod: Object, ip: str) -> None:
        """Take a pod that is about to run, and return when it is led where its node's pods are, and the names of its
        namespace are known."""
        self._add_client(pod, ip)
        if self._local.get("local"):
            await self._wait(pod["metadata"]["uid"], self._begun + 1)
        elif (push := self._unnamed.get(namespace_of(pod))) is not None and self._pushed is not None:
            await self._wait(pod["metadata"]["uid"], push)

    def _add_client(self, pod: Object, ip: str) -> None:
        if ip and not pod["spec"].get("hostNetwork"):
            uid = pod["metadata"]["uid"]
            self._clients.pop(uid, None)  # the newest comes last
            self._clients[uid] = pod["spec"].get("nodeName") or "", ip

    async def publish(self, pod: Object) -> None:
        """Make the records say what `pod`'s status says, and return when they do."""
        uid = pod["metadata"]["uid"]
        old = self._pods.get(uid)
        self._pods[uid] = pod
        if old is not None and _relevant(old) == _relevant(pod):
            return
        known = self._pushed is not None  # what Services there are
        if known and not any(self._is_published(one) for one in (old, pod) if one is not None):
            return  # nothing says anything of it: its status need not wait for the names of others
        await self._wait(uid, self._begun + 1)

    async def _wait(self, uid: str, push: int) -> None:
        """Return when a push has ended, or it has taken too long. The next one has all that is known now."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((push, done))
        if push > self._begun:
            self._awaited.set()
            self._dirty.set()
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await done
        except TimeoutError:
            log.warning("DNS records not confirmed", extra={"pod": uid})

    def _is_published(self, pod: Object) -> bool:
        """Return whether names or routes say anything of a pod."""
        if has_routes(pod):
            return True
        services = self._by_namespace.get(pod["metadata"]["namespace"])
        return any(concerns(service, pod) for service in services)

    def update(self, pod: Object) -> None:
        """Take what others wrote of a pod: its labels, and that it is to end."""
        known = self._pods.get(pod["metadata"]["uid"])
        if known is None:
            return
        changed = {**pod, "status": status_of(known)}
        if _relevant(changed) != _relevant(known):
            self._pods[pod["metadata"]["uid"]] = changed
            self._dirty.set()

    def forget(self, uid: str) -> None:
        """Drop a pod that is no more."""
        was_client = self._clients.pop(uid, None) is not None
        if self._pods.pop(uid, None) is not None or (was_client and self._local.get("local")):
            self._dirty.set()

    async def _push(self) -> None:
        self._dirty.clear()
        self._awaited.clear()
        self._begun += 1
        services = list(self._services.items())
        backends = Backends(self._pods.values(), self._users_slices.get("user"))
        records = self._zone.records(services, backends)
        routes = routing(services, backends, self._clients_by_node())
        try:
            if records != self._pushed:
                await self._runtime.set_records(records)
                self._pushed = records
            if routes.routes != self._routing.routes or not self._routed:
                await self._route(routes)
            self._routing = routes
            in_force = True
        except (RuntimeLost, OSError) as error:
            in_force = False
            log.warning("DNS records or routes not updated", extra={"error": str(error)})
            self._dirty.set()
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            # Nobody waits for a DNS server that is away: a pod's status is worth more than its name.
            self._end_push()
        await self._write_balancers(services)
        await self._tell_healths(services, backends, healthy=in_force)

    def _end_push(self) -> None:
        self._unnamed = {namespace: push for namespace, push in self._unnamed.items() if push > self._begun}
        waiting, self._waiting = self._waiting, []
        for push, done in waiting:
            if push > self._begun:
                self._waiting.append((push, done))
            elif not done.done():
                done.set_result(None)

    def _clients_by_node(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        if self._local.get("local"):
            # An address that is given again is its newest pod's: one that ended is forgotten later than that.
            for ip, node in {ip: node for node, ip in self._clients.values()}.items():
                found.setdefault(node, []).append(ip)
        return found

    async def _route(self, routes: Routing) -> None:
        self._routed = False
        before, self._refused = self._refused, await self._runtime.set_routes(routes.routes)
        self._routed = not self._refused
        for place, loser, owner in routes.refused:
            self._tell(loser, place, f"{owner['metadata']['namespace']}/{owner['metadata']['name']} has it")
        for place, why in self._refused.items():
            if place in before and place in routes.owners:
                self._tell(routes.owners[place], place, why)
        if self._refused:
            self._try_later()

    def _try_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_PORT_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._dirty.set()

    def _tell(self, owner: Object, place: Place, why: str) -> None:
        protocol, ip, port = place
        reason = "HostPortConflict" if "containers" in owner["spec"] else "PortNotOpened"
        text = f"port {port}/{protocol.upper()} of this machine is not opened at {ip}: {why}"
        self._recorder.event(owner, "Warning", reason, text)

    async def _write_balancers(self, services: list[Object]) -> None:
        """Say of each LoadBalancer where it is reached; of others that were one, nothing any more."""
        for service in services:
            wanted = ingress(service, self._routing, self._refused)
            balancer = section(status_of(service), "loadBalancer")
            if (balancer.get("ingress") or []) == wanted:
                continue
            metadata = service["metadata"]
            status = {"status": {"loadBalancer": {"ingress": wanted or None}}}
            try:
                await self._client.patch(
                    SERVICES, metadata["name"], metadata["namespace"], status, subresource="status"
                )
            except ApiError as error:
                if error.code != 404:
                    log.warning("status of a Service not written", extra={"error": str(error)})

    async def _tell_healths(self, services: list[Object], backends: Backends, *, healthy: bool) -> None:
        """Tell whoever asks at a Service's `healthCheckNodePort` whether it has endpoints."""
        if self._health is None and not any(HEALTH_PORT in spec_of(service) for service in services):
            return
        from trainshed.cluster.node.service_health import HealthPorts, healths  # for few clusters

        if self._health is None:
            self._health = HealthPorts()
        failed = await self._health.update(healths(services, backends, healthy=healthy))
        for service in services if failed else ():
            why = failed.get((namespace_of(service), name_of(service)))
            if why is not None:
                self._recorder.event(service, "Warning", "FailedToStartServiceHealthcheck", why)
        if self._health.failed:
            self._try_later()


def _pause(seconds: float) -> float:
    """Return a pause, never so long that a pod that waits for its name gives up."""
    return min(seconds, PUBLISH_SECONDS / 2)


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
