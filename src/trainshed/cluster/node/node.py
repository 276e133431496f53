"""One node: its Node object and Lease, and a worker for each of its pods.

Machine ──pods of this node, ends of containers, changed objects──▶ Node ──▶ PodWorker per uid
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from trainshed.client.transport import TransportError
from trainshed.cluster.node.access import NodeAccess
from trainshed.cluster.node.metrics import ContainerUse, PodMeter, total_use
from trainshed.cluster.node.paths import remove_pod
from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.node.references import Reference
from trainshed.cluster.node.registration import MEMORY, Registration
from trainshed.cluster.node.summary import Disk, Measured, directories, summary
from trainshed.cluster.sandbox.api import ContainerState, RuntimeLost, SandboxState
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Event

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
_Answer = TypeVar("_Answer")


class Node:
    """Told by its `Machine` what happens; see there for the order of the calls."""

    def __init__(self, name: str, context: NodeContext, registration: Registration) -> None:
        self.name = name
        self._context = context
        self._registration = registration
        self._started = context.now()
        self._workers: dict[str, PodWorker] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.access = NodeAccess(context.runtime, context.paths, self._workers)
        """For the API server: logs, exec and the like of this node's pods."""
        self.meter = PodMeter(context.runtime, self._workers)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Register the Node and renew its Lease in `tasks`, where the workers run too."""
        node = await persist(self._registration.register, "register node")
        if boot_id := self._registration.new_boot_id:
            text = f"Node {self.name} has been rebooted, boot id: {boot_id}"
            self.tell(Event("Warning", "Rebooted", text))
        self._tasks = tasks
        self._run(self._registration.keep_alive(node), f"lease-{self.name}")

    def stop(self) -> None:
        """Take no more pods."""
        self._tasks = None

    @property
    def is_down(self) -> bool:
        """Whether it was never started, stopped, or killed."""
        return self._tasks is None

    async def kill(self) -> None:
        """End everything at once, as when the machine loses its power: nothing is told, what ran has ended."""
        self._tasks = None
        running, uids = set(self._running), self.sandboxed()
        for uid in self._workers:
            self._context.attachments.let_go(uid)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._workers.clear()
        await asyncio.gather(*(self._context.runtime.stop_sandbox(uid) for uid in uids))

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def pod_changed(self, kind: str, pod: Object, found: SandboxState | None) -> None:
        """Take a change of a pod that is bound here. `found`: its sandbox where one is left from before."""
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if kind == "DELETED":
            if worker is not None:
                worker.mark_gone()
        elif worker is not None:
            worker.update(pod)
        elif self._tasks is not None:
            worker = self._workers[uid] = PodWorker(self._context, pod, found=found)
            self._run(self._work(worker), f"pod-{pod['metadata']['name']}")

    def container_ended(self, uid: str, state: ContainerState) -> None:
        """Take the end of a container if its pod is here."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.container_ended(state)

    def reference_changed(self, namespace: str, reference: Reference) -> None:
        """Tell every pod of the namespace that an object has changed that it may refer to."""
        for worker in self._workers.values():
            if worker.pod["metadata"]["namespace"] == namespace:
                worker.reference_changed(reference)

    def sandboxed(self) -> set[str]:
        """Return the pods that should have a sandbox now."""
        return {uid for uid, worker in self._workers.items() if _sandboxed(worker)}

    def running(self) -> list[PodWorker]:
        """Return the workers of the pods that have a sandbox now."""
        return [worker for worker in self._workers.values() if _sandboxed(worker)]

    def pods(self) -> list[Object]:
        """Return the pods that are here, with the status that they were given last."""
        return [{**worker.pod, "status": worker.status()} for worker in self._workers.values()]

    async def summary(self, whole: ContainerUse | None) -> Object:
        """Return what the node and its pods use; `whole` is what the node does, None for the sum of its pods."""
        context = self._context
        pods = await self.meter.by_pod()
        wanted = directories(context.paths, [worker.pod for worker, _ in pods])
        measured = Measured(
            node=self.name,
            started=self._started,
            whole=whole or total_use(use for _, use in pods),
            pods=pods,
            sizes=await context.runtime.measure(wanted),
            disk=await asyncio.to_thread(Disk.of, context.paths.home),
            images=await asyncio.to_thread(context.images.bytes_on_disk, context.paths.pod("")),
            now=context.now(),
        )
        return summary(measured, context.paths)

    def tell(self, event: Event) -> None:
        """Record an event about this node."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "uid": self.name}}
        self._context.recorder.event(node, event.type, event.reason, event.message)

    async def pressure(self, kind: str, short: bool) -> None:
        """Say on the Node whether little is left of its disk or its memory, by the name of the condition.

        Raises ApiError or TransportError.
        """
        await self._registration.pressure(kind, short)
        if short:
            text = f"Attempting to reclaim {'memory' if kind == MEMORY else 'ephemeral-storage'}"
            self.tell(Event("Warning", "EvictionThresholdMet", text))

    def compare(self, before: set[str], states: Mapping[str, SandboxState]) -> None:
        """Take what the runtime says of all its sandboxes. `before` is what `sandboxed` returned before it was
        asked: of a pod that came meanwhile it may know nothing yet."""
        for uid in before:
            worker = self._workers.get(uid)
            if worker is not None and _sandboxed(worker):
                worker.sandbox_found(states.get(uid))

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker; a bug in one must not end the node: it starts again from what the runtime says."""
        runtime, paths = self._context.runtime, self._context.paths
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod worker failed", extra={"pod": worker.uid})
                await asyncio.sleep(RETRY_SECONDS)
                if worker.record.gone:
                    try:
                        await remove_pod(runtime, paths, worker.uid)
                    except (RuntimeLost, OSError) as error:
                        log.warning("sandbox not removed", extra={"pod": worker.uid, "error": str(error)})
                    break
                states = {state.uid: state for state in await persist(runtime.list, "list sandboxes")}
                pod = worker.resizer.desired
                worker = PodWorker(self._context, pod, found=states.get(worker.uid))
                self._workers[worker.uid] = worker
        self._workers.pop(worker.uid, None)


def _sandboxed(worker: PodWorker) -> bool:
    return worker.record.ip is not None and not worker.record.stopped


async def persist(call: Callable[[], Coroutine[Any, Any, _Answer]], what: str) -> _Answer:
    """Return what `call` returns, trying again while the API or the runtime is away."""
    while True:
        try:
            return await call()
        except (ApiError, TransportError, RuntimeLost) as error:
            log.warning("node waits", extra={"step": what, "error": str(error)})
            await asyncio.sleep(RETRY_SECONDS)
