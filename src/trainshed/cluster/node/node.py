"""The node agent: registers the node, watches its pods, and gives each pod a worker.

    informer (spec.nodeName) ──▶ PodWorker per uid ◀── runtime.events()
    informers of ConfigMaps, Secrets, claims ──▶ the workers of the pods that refer to them

After a restart: sandboxes found are handed to the workers of their pods; those of pods that are gone are
stopped and removed. Sandboxes outlive the agent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.cluster.node.access import NodeAccess
from trainshed.cluster.node.devices import gpu
from trainshed.cluster.node.dns import DnsController
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.environment import search_path
from trainshed.cluster.node.pod.nodecontext import NodeContext, NodeOptions
from trainshed.cluster.node.pod.sandboxspec import python_prefix
from trainshed.cluster.node.pod.starter import TOOLS_PATH, tools_directory
from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.registration import Registration, capacity
from trainshed.cluster.node.volumes.empty_dir import memory_root
from trainshed.cluster.sandbox.api import ContainerState, Runtime, RuntimeLost, SandboxState
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, PERSISTENTVOLUMECLAIMS, PODS, SECRETS, SERVICES

log = logging.getLogger(__name__)

RESYNC_SECONDS = 10.0
"""How often the runtime is asked for everything, in case an end was missed."""
RETRY_SECONDS = 1.0


class NodeAgent:
    """One node. `runtime` must be started. Several nodes of one machine are joined with `share`."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        *,
        node_name: str,
        paths: NodePaths,
        options: NodeOptions | None = None,
        dns: DnsController | None = None,
        services: Informer | None = None,
        recorder: EventRecorder | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        options = options or NodeOptions()
        self.node_name = node_name
        self._client = client
        self._runtime = runtime
        self._paths = paths
        self._now = now
        self._pods = Informer(client, PODS, field_selector=f"spec.nodeName={node_name}")
        self._own_services = services is None
        self._services = services or Informer(client, SERVICES)
        self._by_namespace = self._services.index(lambda s: [s["metadata"]["namespace"]])
        self._own_dns = dns is None
        self._dns = dns or DnsController(
            client, runtime, services=self._services, domain=options.network.domain
        )
        self._dns.expect_node()
        self._referenced = [Informer(client, r) for r in (CONFIGMAPS, SECRETS, PERSISTENTVOLUMECLAIMS)]
        self._own_recorder = recorder is None
        self._recorder = recorder or EventRecorder(client, "kubelet")
        paths.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        gpus = gpu.detect() if options.gpus is None else options.gpus
        amounts = capacity(paths.home, max_pods=options.max_pods, gpus=len(gpus))
        tools = tools_directory()
        self._context = NodeContext(
            client=client,
            runtime=runtime,
            recorder=self._recorder,
            paths=paths,
            facts=NodeFacts(node_name, options.host_ip, amounts),
            options=options,
            services=self._services_of,
            publish=lambda pod: self._dns.publish(pod),
            forget=lambda uid: self._dns.forget(uid),
            search_path=search_path(python_prefix(), TOOLS_PATH if tools else ""),
            tools=tools,
            gpus=gpus,
            now=now,
        )
        self._registration = Registration(
            client, node_name, host_ip=options.host_ip, amounts=amounts, labels=options.labels, now=now
        )
        self.ready = asyncio.Event()
        """Set when the Node is registered, sandboxes are adopted and pods are being watched."""
        self._workers: dict[str, PodWorker] = {}
        self._found: dict[str, SandboxState] = {}
        self._adopting = True
        self._resync_wanted = asyncio.Event()
        self._listeners = [self._container_ended]
        self._listens = True
        self._group: asyncio.TaskGroup | None = None

    def backend(self) -> NodeAccess:
        """Return access to this node's pods for the API server (`cluster.backend.NodeBackend`)."""
        return NodeAccess(self._runtime, self._paths, self._workers)

    def share(self, other: NodeAgent) -> None:
        """Use `other`'s DNS zone and its stream of container ends: a machine has one of each. Call before
        `run`; `other` must run too."""
        self._dns, self._own_dns = other._dns, False
        self._dns.expect_node()
        other._listeners.append(self._container_ended)
        self._listens = False

    async def run(self) -> None:
        """Run the node until cancelled; pods run on afterwards."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                # Listening begins before listing, so that no end falls in between.
                if self._listens:
                    group.create_task(self._follow_runtime())
                node = await self._persist(self._registration.register, "register node")
                group.create_task(self._registration.keep_alive(node))
                if self._own_services:
                    group.create_task(self._services.run())
                if self._own_dns:
                    group.create_task(self._dns.run())
                for informer in self._referenced:
                    group.create_task(informer.run())
                await self._services.wait_synced()
                await self._adopt(group)
                self._watch_references()
                group.create_task(self._resync())
                self.ready.set()
        finally:
            self._group = None
            if self._own_recorder:
                await self._recorder.close()

    async def _adopt(self, group: asyncio.TaskGroup) -> None:
        """Give every sandbox to the worker of its pod; remove those that nobody wants."""
        self._found = {
            state.uid: state for state in await self._persist(self._runtime.list, "list sandboxes")
        }
        self._pods.add_handler(self._pod_changed)
        group.create_task(self._pods.run())
        await self._pods.wait_synced()
        self._adopting = False
        self._dns.node_adopted()
        orphans = [state for uid, state in self._found.items() if uid not in self._workers]
        found, self._found = set(self._found), {}
        await asyncio.gather(*(self._remove_orphan(state) for state in orphans))
        await self._remove_leftovers(found)

    def _pod_changed(self, kind: str, old: Object | None, new: Object) -> None:
        uid = new["metadata"]["uid"]
        worker = self._workers.get(uid)
        if kind == "DELETED":
            if worker is not None:
                worker.mark_gone()
        elif worker is not None:
            worker.update(new)
        elif self._group is not None:
            found = self._found.get(uid) if self._adopting else None
            worker = PodWorker(self._context, new, found=found, resync=lambda _: self._resync_wanted.set())
            if found is not None and found.alive:
                self._dns.note(new)
            self._workers[uid] = worker
            self._group.create_task(self._work(worker), name=f"pod-{new['metadata']['name']}")

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker; a bug in one must not end the node: it starts again from what the runtime says."""
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod worker failed", extra={"pod": worker.uid})
                await asyncio.sleep(RETRY_SECONDS)
                if worker.record.gone:
                    await self._remove_files(worker.uid)
                    break
                states = {s.uid: s for s in await self._persist(self._runtime.list, "list sandboxes")}
                worker = PodWorker(
                    self._context,
                    worker.pod,
                    found=states.get(worker.uid),
                    resync=lambda _: self._resync_wanted.set(),
                )
                self._workers[worker.uid] = worker
        self._workers.pop(worker.uid, None)

    def _container_ended(self, uid: str, state: ContainerState) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.container_ended(state)

    async def _follow_runtime(self) -> None:
        while True:
            try:
                async for uid, state in self._runtime.events():
                    for listener in self._listeners:
                        listener(uid, state)
            except RuntimeLost as error:
                log.warning("runtime events interrupted", extra={"error": str(error)})
            await asyncio.sleep(RETRY_SECONDS)
            self._resync_wanted.set()

    async def _resync(self) -> None:
        """Compare what the workers believe with what the runtime says: now and then, and when in doubt."""
        while True:
            try:
                async with asyncio.timeout(RESYNC_SECONDS):
                    await self._resync_wanted.wait()
            except TimeoutError:
                pass
            self._resync_wanted.clear()
            before = {
                uid for uid, w in self._workers.items() if w.record.ip is not None and not w.record.stopped
            }
            try:
                states = {state.uid: state for state in await self._runtime.list()}
            except (RuntimeLost, OSError) as error:
                log.warning("runtime does not answer", extra={"error": str(error)})
                continue
            for uid in before:
                worker = self._workers.get(uid)
                if worker is not None and worker.record.ip is not None and not worker.record.stopped:
                    worker.sandbox_found(states.get(uid))

    async def _remove_orphan(self, state: SandboxState) -> None:
        """Remove a sandbox unless its pod lives on another node of this machine."""
        try:
            pod = await self._client.get(PODS, state.name, state.namespace)
            if pod["metadata"]["uid"] == state.uid and pod["spec"].get("nodeName") != self.node_name:
                return
        except ApiError as error:
            if error.code != 404:
                log.warning("orphaned sandbox kept", extra={"pod": state.uid, "error": str(error)})
                return
        except TransportError:
            return
        log.info("remove orphaned sandbox", extra={"pod": state.uid, "pod_name": state.name})
        await self._remove_files(state.uid)

    async def _remove_leftovers(self, found: set[str]) -> None:
        """Remove directories of pods that never got a sandbox and are gone."""
        pods = self._paths.pod("")
        left = {entry.name for entry in pods.iterdir()} if pods.is_dir() else set()
        left -= found | set(self._workers)
        if not left:
            return
        try:
            known = {pod["metadata"]["uid"] for pod in (await self._client.list(PODS)).items}
        except (ApiError, TransportError):
            return
        for uid in left - known:
            await self._remove_files(uid)

    async def _remove_files(self, uid: str) -> None:
        try:
            await self._runtime.stop_sandbox(uid)
            await self._runtime.remove_sandbox(uid)
            for directory in (memory_root(uid), self._paths.pod(uid)):
                await self._runtime.remove_tree(directory)
        except (RuntimeLost, OSError) as error:
            log.warning("sandbox not removed", extra={"pod": uid, "error": str(error)})

    def _watch_references(self) -> None:
        for informer in self._referenced:
            plural = informer.resource.plural

            def changed(kind: str, old: Object | None, new: Object, plural: str = plural) -> None:
                metadata = new["metadata"]
                for worker in self._workers.values():
                    if worker.pod["metadata"]["namespace"] == metadata["namespace"]:
                        worker.reference_changed((plural, metadata["name"]))

            informer.add_handler(changed)

    def _services_of(self, namespace: str) -> Sequence[Object]:
        return self._by_namespace.get(namespace)

    async def _persist(self, call: Callable[[], Coroutine[Any, Any, Any]], what: str) -> Any:
        """Return what `call` returns, trying again while the API or the runtime is away."""
        while True:
            try:
                return await call()
            except (ApiError, TransportError, RuntimeLost) as error:
                log.warning("node waits", extra={"step": what, "error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
