"""A cluster without sandboxes: the real store, API server, scheduler and controllers, and a kubelet that plays pods."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.chores import Chores
from tests.fakes.training import LaggingTransport
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.informer import Informer
from trainshed.cluster.apiserver.access import Authenticator, RbacAuthorizer
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.cluster.controllers.aggregatedroles import AggregationController
from trainshed.cluster.controllers.autoscaling.autoscalers import AutoscalerController
from trainshed.cluster.controllers.autoscaling.metrics import Use
from trainshed.cluster.controllers.garbage import GarbageCollector
from trainshed.cluster.controllers.namespaces import NamespaceController
from trainshed.cluster.controllers.nodestates import GRACE_SECONDS, NodeStateController
from trainshed.cluster.controllers.quotas import QuotaController
from trainshed.cluster.controllers.registry import controllers
from trainshed.cluster.controllers.tokensecrets import TokenController
from trainshed.cluster.sandbox import files
from trainshed.cluster.scheduler.install import install
from trainshed.cluster.scheduler.scheduler import Scheduler
from trainshed.cluster.storage.controller import StorageController
from trainshed.cluster.storage.ephemeral import EphemeralController
from trainshed.cluster.store import Store
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import NODES, PODS, Resource
from trainshed.tekton.versions import CONVERSIONS

DEADLINE = 20.0
CA = "-----BEGIN CERTIFICATE-----\n"


async def remove_tree(path: Path) -> None:
    """Delete a directory as the runtime does for a user who may."""
    await asyncio.to_thread(files.remove_tree, str(path))


class Kubelet:
    """Runs every bound pod as nothing at all: Running and Ready with an address, gone when deleted.

    `ready` says which pods become Ready, `exits` the phase that a pod ends with by itself (by its name).
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._addresses = (f"10.88.0.{n}" for n in itertools.count(2))
        self._chores = Chores()
        self._seen: set[tuple[str, str]] = set()
        self.started: list[str] = []
        self.ready: Callable[[Object], bool] = lambda pod: True
        self.exits: Callable[[Object], str] = lambda pod: ""
        self.codes: Callable[[Object], int] | None = None
        self.lets_go: Callable[[Object], bool] = lambda pod: True
        self.pods = Informer(client, PODS)
        self.pods.add_handler(self._changed)

    def _changed(self, kind: str, old: Object | None, pod: Object) -> None:
        if kind == "DELETED" or not pod["spec"].get("nodeName"):
            return
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            if metadata.get("deletionGracePeriodSeconds") and self.lets_go(pod):
                self._once("end", pod, self._end(pod))
        elif (pod.get("status") or {}).get("phase") == "Pending":
            self._once("start", pod, self._start(pod))

    def _once(self, what: str, pod: Object, work: Any) -> None:
        if (what, pod["metadata"]["uid"]) in self._seen:
            work.close()
            return
        self._seen.add((what, pod["metadata"]["uid"]))
        self._chores.do(work)

    async def _start(self, pod: Object) -> None:
        self.started.append(pod["metadata"]["name"])
        await self.report(pod, "Running", ready=self.ready(pod), address=next(self._addresses))
        phase = self.exits(pod)
        if self.codes is not None and (code := self.codes(pod)) >= 0:
            await self.report(pod, "Failed" if code else "Succeeded", code=code)
        elif phase:
            await self.report(pod, phase)

    async def _end(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await self._client.delete(PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0)

    def release(self) -> None:
        """End the pods that `lets_go` held back."""
        for pod in self.pods.items():
            self._changed("MODIFIED", None, pod)

    async def report(
        self, pod: Object, phase: str, *, ready: bool = False, address: str = "", code: int | None = None
    ) -> None:
        """Write the pod's status; `code` is that with which its first container ended."""
        metadata = pod["metadata"]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": stamp}
        status: Object = {"phase": phase, "conditions": [condition]}
        if address:
            status["podIP"] = address
        if code is not None:
            name = pod["spec"]["containers"][0]["name"]
            ended = {"terminated": {"exitCode": code, "finishedAt": stamp}}
            status["containerStatuses"] = [{"name": name, "state": ended}]
        await self._client.patch(
            PODS,
            metadata["name"],
            metadata["namespace"],
            {"metadata": {"uid": metadata["uid"]}, "status": status},
            patch_type="application/strategic-merge-patch+json",
            subresource="status",
        )

    async def close(self) -> None:
        await self._chores.end()


class World:
    """The cluster under test. `client` may do everything."""

    def __init__(self, store: Store, volumes: Path) -> None:
        self.store = store
        self.volumes = volumes
        issuer = TokenIssuer(ec.generate_private_key(ec.SECP256R1()))
        self.api = ApiServer(
            store,
            authenticator=Authenticator(store, issuer, {}),
            authorizer=RbacAuthorizer(store),
            conversions=CONVERSIONS,
        )
        self.client = Client(AsgiTransport(self.api, "admin", ["system:masters"]))
        self.kubelet = Kubelet(self.client)
        self.uses: dict[str, Use] = {}
        """What pods use, by name, for autoscalers."""
        self.lag: dict[str, float] = {}
        """Seconds by which the controllers' watches are behind, by plural; read when they start."""
        self.node_grace = GRACE_SECONDS
        """How long a node may be silent; read when the controllers start."""
        self._running: asyncio.Task[None] | None = None

    def controllers(self) -> list[Any]:
        """Return everything that runs, new: a restart is calling this again."""
        transport = AsgiTransport(self.api, "system:controllers", ["system:masters"])
        client = Client(LaggingTransport(transport, self.lag))
        informers = self.informers = SharedInformers(client)
        return [
            GarbageCollector(client, self.store),
            NamespaceController(client, informers, self.store, CA),
            TokenController(client, informers, self.api.core.authenticator.issuer, CA),
            AggregationController(client, informers),
            *controllers(client, informers),
            NodeStateController(client, informers, grace=self.node_grace),
            AutoscalerController(client, informers, metrics=self._measure),
            QuotaController(client, self.api.core),
            StorageController(client, informers, self.volumes, remove_tree),
            EphemeralController(client, informers),
            Scheduler(client, informers),
            informers,
        ]

    async def _measure(self, namespace: str) -> dict[str, Use]:
        return self.uses

    async def start(self, *, kubelet: bool = True) -> None:
        """Start the controllers and, unless pods are played by something else, the kubelet."""
        parts = [*self.controllers(), *([self.kubelet.pods] if kubelet else ()), self.api]

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for part in parts:
                    tasks.create_task(part.run())

        self._running = asyncio.create_task(run())

    async def stop(self) -> None:
        """Kill the controllers wherever they are."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def add_node(self, name: str = "laptop", **allocatable: str) -> Object:
        """Add a ready node."""
        offer = {"cpu": "8", "memory": "16Gi", "pods": "110", **allocatable}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}}
        await self.client.create(NODES, node)
        status = {"allocatable": offer, "conditions": [{"type": "Ready", "status": "True"}]}
        patch = {"spec": {"taints": None}}
        await self.client.patch(NODES, name, None, patch)
        return await self.client.patch(NODES, name, None, {"status": status}, subresource="status")

    def stored(self, resource: Resource, name: str, namespace: str = "default") -> Object | None:
        """Return the object as it is in the store."""
        home = namespace if resource.namespaced else "-"
        found = self.store.get(f"/{resource.group or 'core'}/{resource.plural}/{home}/{name}")
        return found.obj if found is not None else None

    def all(self, resource: Resource, namespace: str = "default") -> list[Object]:
        """Return the objects of a namespace as they are in the store."""
        home = namespace if resource.namespaced else "-"
        listed, _ = self.store.list(f"/{resource.group or 'core'}/{resource.plural}/{home}/")
        return [stored.obj for stored in listed]

    async def until(self, what: str, predicate: Callable[[], object], deadline: float = DEADLINE) -> Any:
        """Wait for changes of the store until `predicate` is true; return what it returned."""
        watch = self.store.watch("/", self.store.revision)
        try:
            async with asyncio.timeout(deadline):
                while not (found := predicate()):
                    await watch.batch()
                return found
        except TimeoutError:
            raise AssertionError(f"not within {deadline} s: {what}") from None
        finally:
            watch.close()

    async def settle(self, quiet: float = 0.4, deadline: float = DEADLINE) -> None:
        """Return when nothing was written for `quiet` seconds: whoever spins never lets it come to that."""
        end = time.monotonic() + deadline
        revision = -1
        while self.store.revision != revision:
            assert time.monotonic() < end, f"still writing after {deadline} s"
            revision = self.store.revision
            await asyncio.sleep(quiet)

    async def code(self, request: Awaitable[object]) -> int:
        """Return the status code that a request is refused with, 0 when it is not."""
        try:
            await request
        except ApiError as error:
            return error.code
        return 0


@asynccontextmanager
async def cluster(path: Path, *, node: bool = True) -> AsyncIterator[World]:
    """A started world with one node; without it, pods are played by something else, too."""
    store = await Store.open(path / "store.db")
    world = World(store, path / "volumes")
    await bootstrap(world.client)
    await install(world.client)
    await world.start(kubelet=node)
    if node:
        await world.add_node()
    try:
        yield world
    finally:
        await world.stop()
        await world.kubelet.close()
        await world.client.close()
        await store.close()


def make_pod(name: str, **spec: Any) -> Object:
    """Return a pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "train:1"}], **spec},
    }


def conditions(obj: Object | None) -> dict[str, str]:
    """Return the reasons of the conditions that are true, by type."""
    status = (obj or {}).get("status") or {}
    return {c["type"]: c["reason"] for c in status.get("conditions") or () if c["status"] == "True"}
