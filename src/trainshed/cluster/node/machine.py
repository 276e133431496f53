"""The machine under the nodes: what there is once, however many nodes it shows.

    informers: pods ─────────────────────────────────┐
               ConfigMaps, Secrets, claims ──────────┤
    runtime:   ends of containers, list every 10 s ──┴──▶ Node (by spec.nodeName) ──▶ its workers
    DNS zone, routes ◀── published by the workers ── Services

Expected flow of `run`: every node registers ▸ sandboxes are listed ▸ pods get their workers, which take over what
is found ▸ the DNS zone is complete ▸ ends of containers are followed ▸ what nobody wants is removed. The runtime
keeps ends until they are read, so none is lost in between. Sandboxes outlive the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable

import msgspec

from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer
from trainshed.cluster.images.directories import ImageRegistry
from trainshed.cluster.images.store.listing import listed
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.node.attachments import Attachments
from trainshed.cluster.node.devices import gpu, nvml
from trainshed.cluster.node.diskwatch import DiskWatch
from trainshed.cluster.node.hardware import capacity
from trainshed.cluster.node.imagekeeper import ImageKeeper
from trainshed.cluster.node.memorywatch import MemoryWatch
from trainshed.cluster.node.network import NetworkController
from trainshed.cluster.node.node import Node, persist
from trainshed.cluster.node.orphanedpods import why_orphaned
from trainshed.cluster.node.paths import NodePaths, remove_pod
from trainshed.cluster.node.pod.cores import Cores
from trainshed.cluster.node.pod.environment import search_path
from trainshed.cluster.node.pod.images import Images
from trainshed.cluster.node.pod.nodecontext import MachineOptions, NodeContext
from trainshed.cluster.node.pod.sandboxspec import python_prefix
from trainshed.cluster.node.pod.shares import Shares
from trainshed.cluster.node.pod.starter import TOOLS_PATH, tools_directory
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.registration import KILLED, Registration
from trainshed.cluster.sandbox.api import (
    Runtime,
    RuntimeLost,
    RuntimeUnavailable,
    SandboxNotFound,
    SandboxState,
)
from trainshed.kube.meta.objects import Object, name_of, texts
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.resources import CONFIGMAPS, NODES, PERSISTENTVOLUMECLAIMS, PODS, SECRETS, SERVICES

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""How long DNS, egress and new pods may be without their daemon before it is missed. A check is two messages."""
RESYNC_SECONDS = 10.0
"""How often the runtime is asked for everything, in case an end was missed."""
SHARES_SECONDS = 0.3
"""How long changes of CPU requests are gathered: pods that start together are told once, and when they run."""
RETRY_SECONDS = 1.0


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one node shows. `labels` are added to the Node; `gpus` None: every GPU of the machine."""

    labels: dict[str, str] = {}
    max_pods: int = 110
    gpus: tuple[int, ...] | None = None


class Machine:
    """`runtime` must be started; `informers` are run by their owner, and not before this is made."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        informers: SharedInformers,
        paths: NodePaths,
        *,
        options: MachineOptions | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._paths = paths
        self._options = options or MachineOptions()
        self._now = now
        self._pods = informers.of(PODS)
        self._services = informers.of(SERVICES)
        self._node_objects = informers.of(NODES)
        self._power: asyncio.Queue[str] = asyncio.Queue()
        """Names of nodes that were killed, or started again."""
        self._services_by_namespace = self._services.index(lambda s: [s["metadata"]["namespace"]])
        self._referenced = [informers.of(r) for r in (CONFIGMAPS, SECRETS, PERSISTENTVOLUMECLAIMS)]
        self._recorder = EventRecorder(client, "kubelet")
        self._proxy_recorder = EventRecorder(client, "kube-proxy")
        self._network = NetworkController(
            runtime, client, informers, self._proxy_recorder, domain=self._options.network.domain
        )
        registry, store = ImageRegistry(paths.images), ImageStore(paths.image_store)
        self._image_keeper = ImageKeeper(store, paths.pod(""), paths.image_space, self._tell_nodes, now)
        self._store = store
        self._images = Images(registry, store, self._options.images, now, pulled=self._image_keeper.look_soon)
        self._tools = tools_directory()
        self._cores = Cores(sorted(os.sched_getaffinity(0)))
        self._shares = Shares()
        self._attachments = Attachments()
        self._known_gpus = nvml.query() if gpu.detect() else {}
        self._nodes: dict[str, Node] = {}
        self._disk = DiskWatch(
            runtime, paths, lambda: list(self._nodes.values()), reclaim=self._image_keeper.reclaim
        )
        self._memory = MemoryWatch(lambda: list(self._nodes.values()), now=time.monotonic)
        self._found: dict[str, SandboxState] = {}
        """Sandboxes of before, while the pods that they belong to get their workers."""
        self._resync_wanted = asyncio.Event()
        self.ready = asyncio.Event()
        """Set when every Node is registered, sandboxes are adopted and pods are being watched."""
        paths.home.mkdir(parents=True, exist_ok=True, mode=0o700)

    def add(self, name: str, options: NodeOptions | None = None) -> Node:
        """Return a new node of this machine. Call before `run`."""
        options = options or NodeOptions()
        gpus = gpu.detect() if options.gpus is None else options.gpus
        host_ip = self._options.host_ip
        amounts = capacity(self._paths.home, max_pods=options.max_pods, gpus=len(gpus))
        context = NodeContext(
            client=self._client,
            runtime=self._runtime,
            recorder=self._recorder,
            paths=self._paths,
            images=self._images,
            facts=NodeFacts(name, host_ip, amounts),
            options=self._options,
            services=self._services_by_namespace.get,
            publish=self._network.publish,
            join=self._network.join,
            forget=self._network.forget,
            resync=self._resync_wanted.set,
            search_path=search_path(python_prefix(), TOOLS_PATH if self._tools else ""),
            tools=self._tools,
            gpus=gpus,
            known_gpus=self._known_gpus,
            pods=lambda: self._nodes[name].pods(),
            cores=self._cores,
            shares=self._shares,
            attachments=self._attachments,
            now=self._now,
        )
        labels = {
            **gpu.labels(self._known_gpus[each] for each in gpus if each in self._known_gpus),
            **options.labels,
        }
        registration = Registration(
            self._client,
            name,
            host_ip=host_ip,
            amounts=amounts,
            labels=labels,
            images=lambda: listed(self._store),
            maps_users=self._options.capabilities.user_mapping,
            now=self._now,
        )
        node = self._nodes[name] = Node(name, context, registration)
        return node

    async def run(self) -> None:
        """Run the nodes until cancelled; pods run on afterwards."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_daemons())
                tasks.create_task(self._network.run())
                await self._node_objects.wait_synced()
                alive = [node for name, node in self._nodes.items() if not self._is_killed(name)]
                await asyncio.gather(*(node.start(tasks) for node in alive))
                found = await self._adopt()
                tasks.create_task(self._follow_ends())
                tasks.create_task(self._resync())
                tasks.create_task(self._disk.run())
                tasks.create_task(self._memory.run())
                tasks.create_task(self._image_keeper.run())
                tasks.create_task(self._share_cpu())
                await self._remove_orphans(found)
                for informer in self._referenced:
                    self._watch(informer)
                self._node_objects.add_handler(self._node_changed)
                tasks.create_task(self._kill_and_start(tasks))
                self.ready.set()
        finally:
            for node in self._nodes.values():
                node.stop()
            await asyncio.gather(self._recorder.close(), self._proxy_recorder.close())

    async def _adopt(self) -> set[str]:
        """Give every pod its worker, and to that the pod's sandbox of before; return the sandboxes found."""
        self._found = {state.uid: state for state in await persist(self._runtime.list, "list sandboxes")}
        await self._services.wait_synced()
        await self._pods.wait_synced()
        self._pods.add_handler(self._pod_changed)
        found, self._found = set(self._found), {}
        self._network.complete()
        return found

    def _pod_changed(self, kind: str, old: Object | None, pod: Object) -> None:
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None:
            if kind == "ADDED" and (why := why_orphaned(pod, self._nodes)):
                self._recorder.event(pod, "Warning", "FailedScheduling", why)
            return
        self._network.update(pod)
        found = self._found.get(pod["metadata"]["uid"])
        node.pod_changed(kind, pod, found)
        if found is not None and found.alive:
            self._network.note(pod)

    def _tell_nodes(self, event: Event) -> None:
        """Record an event of what all nodes share."""
        for node in self._nodes.values():
            node.tell(event)

    def _is_killed(self, name: str) -> bool:
        node = self._node_objects.get("", name)
        return node is not None and KILLED in texts(node["metadata"], "annotations")

    def _node_changed(self, kind: str, old: Object | None, node: Object) -> None:
        name = name_of(node)
        if name in self._nodes and self._is_killed(name) != self._nodes[name].is_down:
            self._power.put_nowait(name)

    async def _kill_and_start(self, tasks: asyncio.TaskGroup) -> None:
        """Follow the annotation `KILLED` of our nodes."""
        while True:
            name = await self._power.get()
            node = self._nodes[name]
            if self._is_killed(name) == node.is_down:
                continue
            if not node.is_down:
                log.info("node killed", extra={"node": name})
                await node.kill()
                continue
            log.info("node started again", extra={"node": name})
            await node.start(tasks)
            states = {state.uid: state for state in await persist(self._runtime.list, "list sandboxes")}
            for pod in self._pods.items():
                if pod["spec"].get("nodeName") == name:
                    node.pod_changed("ADDED", pod, states.get(pod["metadata"]["uid"]))
            await self._remove_orphans(set(states))

    async def _remove_orphans(self, found: set[str]) -> None:
        """Remove sandboxes and directories of pods that are no more."""
        directory = self._paths.pod("")
        left = {entry.name for entry in directory.iterdir()} if directory.is_dir() else set()
        known = {pod["metadata"]["uid"] for pod in self._pods.items()}

        async def remove(uid: str) -> None:
            log.info("remove what is left of a pod", extra={"pod": uid})
            try:
                await remove_pod(self._runtime, self._paths, uid)
            except (RuntimeLost, OSError) as error:
                log.warning("sandbox not removed", extra={"pod": uid, "error": str(error)})

        await asyncio.gather(*(remove(uid) for uid in (left | found) - known))

    def _watch(self, informer: Informer) -> None:
        plural = informer.resource.plural

        def changed(kind: str, old: Object | None, new: Object) -> None:
            metadata = new["metadata"]
            for node in self._nodes.values():
                node.reference_changed(metadata["namespace"], (plural, metadata["name"]))

        informer.add_handler(changed)

    async def _follow_ends(self) -> None:
        while True:
            try:
                async for uid, state in self._runtime.events():
                    for node in self._nodes.values():
                        node.container_ended(uid, state)
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
            before = [(node, node.sandboxed()) for node in self._nodes.values()]
            try:
                states = {state.uid: state for state in await self._runtime.list()}
            except (RuntimeLost, OSError) as error:
                log.warning("runtime does not answer", extra={"error": str(error)})
                continue
            for node, uids in before:
                node.compare(uids, states)

    async def _share_cpu(self) -> None:
        """Tell pods that run when others request more CPU than before, or no longer do."""
        changed = asyncio.Event()
        self._shares.changed = changed.set
        while True:
            for uid in self._shares.behind():
                largest = self._shares.largest
                try:
                    await self._runtime.share_cpu(uid, largest)
                    self._shares.told(uid, largest)
                except SandboxNotFound:
                    pass  # it is about to start, or has ended and will be released
                except (RuntimeLost, OSError) as error:
                    log.warning("shares of CPU time not told", extra={"pod": uid, "error": str(error)})
            if self._shares.behind():
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await changed.wait()
            await asyncio.sleep(SHARES_SECONDS)
            changed.clear()

    async def _keep_daemons(self) -> None:
        """Start a daemon again that has died. Running pods do without them: only new ones wait."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._runtime.start()
            except (RuntimeLost, RuntimeUnavailable, OSError) as error:
                log.error("the sandbox daemons cannot be started: %s", error)
