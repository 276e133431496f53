"""The task of one pod: observe ▸ `decide` ▸ write the status ▸ execute.

Runs whenever something changed (the pod, a container, a probe, a referenced object) or a time came. Killed
at any point, a new worker continues from the API and the runtime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from trainshed.client.transport import TransportError
from trainshed.cluster.node.devices import gpu
from trainshed.cluster.node.paths import remove_pod
from trainshed.cluster.node.pod import lifecycle
from trainshed.cluster.node.pod.cautions import cautions
from trainshed.cluster.node.pod.containers import Supervisor
from trainshed.cluster.node.pod.decide import decide
from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.observed import Observed, SeenPod, StatusContext, Verdict
from trainshed.cluster.node.pod.record import PodRecord
from trainshed.cluster.node.pod.refusal import refusal
from trainshed.cluster.node.pod.resizer import Resizer
from trainshed.cluster.node.pod.sandboxspec import contended_cpu
from trainshed.cluster.node.pod.starter import ContainerError, PodStarter, SetupError, needed
from trainshed.cluster.node.pod.status import OWNED_CONDITIONS
from trainshed.cluster.node.pod.statuswriter import StatusWriter
from trainshed.cluster.node.references import Reference
from trainshed.cluster.sandbox.api import (
    ContainerState,
    RuntimeLost,
    SandboxNotFound,
    SandboxState,
    StartError,
)
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, status_of, uid_of
from trainshed.kube.meta.pods import ephemeral_containers, find_container, is_finished
from trainshed.kube.meta.resources import PODS

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 60.0
"""How long a worker sleeps at most while something is due by the clock."""
_EVERYBODYS = {("configmaps", "kube-root-ca.crt")}
"""What every pod refers to. A pod that refers to more may be about to read what its ended container has written."""
MAX_TURNS = 200
"""Decisions in a row without waiting: more means that a decision does not see its own effect."""


class PodWorker:
    """One pod of this node. `found` is its sandbox where one is left from before."""

    def __init__(self, context: NodeContext, pod: Object, *, found: SandboxState | None) -> None:
        self.uid: str = pod["metadata"]["uid"]
        self.record = PodRecord(context.now())
        self.resizer = Resizer(context, self.record, pod)
        self.pod = self.resizer.take(pod)  # its newest object, with the resources that it was given
        self.listeners: set[Callable[[], None]] = set()
        """Called when a container has ended."""
        self._context = context
        self._wake = asyncio.Event()
        self._status: Object = {}
        self._events: list[Callable[[], None]] = []
        self._starter = PodStarter(
            context, self.uid, lambda event: self._emit(event.type, event.reason, event.message)
        )
        self._writer = StatusWriter(context.client, pod, self._publish)
        self._supervisor = Supervisor(
            context, self.record, lambda: self.pod, wake=self._wake.set, emit=self._emit
        )
        self._references = needed(pod)
        self._volumes_stale = False
        self._fields_stale = found is not None
        self.record.recall(pod)
        allocation = gpu.load(context.paths.devices(self.uid))
        if allocation:
            context.allocated[self.uid] = allocation
        if found is not None:
            self.record.take_sandbox(found, context.options.host_ip, context.now())
            self._supervisor.adopt()
            self.resizer.adopt(found)
            for state in found.containers:
                if found.alive and state.pid is not None:
                    context.cores.note(self.uid, state.name, state.pid)
                    context.shares.note(
                        self.uid, state.name, contended_cpu(pod, find_container(pod, state.name) or {})
                    )
            if found.alive:
                context.attachments.hold(context.facts.name, pod)
        else:
            self.record.lose_sandbox(context.now())

    def update(self, pod: Object) -> None:
        """Take the pod's newest object."""
        # What volumes show of it and may change (downwardAPI).
        if any(
            section(pod["metadata"], f) != section(self.pod["metadata"], f) for f in ("annotations", "labels")
        ):
            self._fields_stale = True
        if ephemeral_containers(pod) != ephemeral_containers(self.pod):
            self._references = needed(pod)
            self._starter.refresh()
        self.pod = self.resizer.take(pod)
        self._wake.set()

    def mark_gone(self) -> None:
        """Note that the API has no such pod any more."""
        self.record.gone = True
        self._wake.set()

    def container_ended(self, state: ContainerState) -> None:
        """Take the end of a container. Ends are told at least once: a repeat, and an attempt that another has
        followed, say nothing about the one that runs now."""
        record = self.record.container(state.name)
        known = record.attempts.get(state.attempt)
        if known is not None and not known.running:
            return
        if record.newest is not None and record.newest.number > state.attempt:
            self.record.take_container(state)
            return
        self._context.cores.release(self.uid, state.name)
        self._context.shares.release(self.uid, state.name)
        self._supervisor.ended(state)
        if self._references - _EVERYBODYS:
            self._starter.refresh()
        self._wake.set()
        for tell in tuple(self.listeners):
            tell()

    def sandbox_found(self, state: SandboxState | None) -> None:
        """Take the runtime's view of the whole pod; None when it knows nothing of it."""
        if state is None:
            self.record.lose_sandbox(self._context.now())
        else:
            for container in state.containers:
                self.container_ended(container) if container.finished_at is not None else None
            if not state.alive and not self.record.stopped:
                self.record.lose_sandbox(self._context.now())
        self._wake.set()

    def evict(self, verdict: Verdict) -> None:
        """End the pod for good, unless that is under way."""
        if self.record.verdict is not None or self.record.gone or is_finished(self.pod):
            return
        self.record.verdict = verdict
        self._emit("Warning", verdict.reason, verdict.message)
        self._wake.set()

    def reference_changed(self, reference: Reference) -> None:
        """Note that an object that the pod may refer to has changed."""
        if reference in self._references:
            self._volumes_stale = True
            self._starter.refresh()
            self.record.retry_now(self._context.now())
            self._wake.set()

    def status(self) -> Object:
        """Return the pod's status as of now, whether written already or not."""
        return self._status or status_of(self.pod)

    async def run(self) -> None:
        """Work until the pod is removed."""
        self._report_once()
        turns = 0
        try:
            while True:
                self._wake.clear()
                observed = self._observe()
                plan = decide(observed)
                if any(isinstance(a, lifecycle.RemovePod) for a in plan.actions):
                    await self._remove()
                    return
                self._tell(plan)
                if lifecycle.Allocate() in plan.actions:  # at once: nobody else may count on the same room
                    self.pod, self._fields_stale = self.resizer.allocate(), True
                if plan.actions:
                    turns += 1
                    await asyncio.gather(*(self._execute(action) for action in plan.actions))
                    if turns < MAX_TURNS:
                        continue
                    log.error("pod does not settle", extra={"pod": self.uid, "actions": str(plan.actions)})
                    await asyncio.sleep(1)
                turns = 0
                await self._keep_volumes()
                after = plan.requeue_after
                await self._wait(None if after is None else observed.now + after)
        finally:
            self._supervisor.stop()
            self._writer.close()

    async def _wait(self, wake_at: float | None) -> None:
        refresh_at = self._starter.volumes.refresh_at
        moments = [m for m in (wake_at, refresh_at) if m is not None]
        wait = None
        if moments:
            # Not longer: tokens end by the clock, which may be set forward while we sleep.
            wait = min(max(0.001, min(moments) - self._context.now()), LOOK_AGAIN_SECONDS)
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            pass
        if refresh_at is not None and refresh_at <= self._context.now():
            self._volumes_stale = True

    async def _keep_volumes(self) -> None:
        """Follow changes of the pod, of ConfigMaps, Secrets and ageing tokens while it runs."""
        if self.record.ip is None or self.record.stopped:
            return
        objects, fields = self._volumes_stale, self._fields_stale
        self._volumes_stale = self._fields_stale = False
        if not (objects or fields):
            return
        try:
            await self._starter.update_volumes(self.pod, read_again=objects)
        except (ApiError, TransportError, OSError) as error:
            log.warning("volumes not updated", extra={"pod": self.uid, "error": str(error)})

    def _current(self) -> Object:
        """Return the pod with the status that we have given it: the API's copy may be older.

        An end that somebody else wrote (an eviction) wins.
        """
        theirs = status_of(self.pod)
        if not self._status or is_finished(self.pod):
            return self.pod
        foreign = [c for c in theirs.get("conditions") or () if c["type"] not in OWNED_CONDITIONS]
        own = [c for c in self._status["conditions"] if c["type"] in OWNED_CONDITIONS]
        return {**self.pod, "status": {**theirs, **self._status, "conditions": [*own, *foreign]}}

    def _observe(self) -> Observed:
        node = StatusContext(self._context.options.host_ip, self._context.images.id)
        pod, refused = self._current(), self.resizer.refused(self.pod)
        return Observed(pod, self.record.seen(), self._context.now(), node, refused)

    def _tell(self, plan: lifecycle.PodPlan) -> None:
        """Write the status, and after it the events that it explains."""
        for event in plan.events:
            self._emit(event.type, event.reason, event.message)
        if self.record.gone:
            self._flush_events()
            return
        self._status = plan.status or self._status
        events, self._events = self._events, []
        self._writer.submit(plan.status, events)

    async def _publish(self, status: Object) -> None:
        await self._context.publish({**self.pod, "status": status})

    async def _execute(self, action: lifecycle.Action) -> None:
        try:
            match action:
                case lifecycle.CreateSandbox():
                    await self._create_sandbox()
                case lifecycle.StartContainer(name, attempt):
                    await self._start_container(name, attempt)
                case lifecycle.BeginStop():
                    self._supervisor.begin_stop(action)
                case lifecycle.Signal(name, signal):
                    await self._supervisor.signal(name, signal)
                case lifecycle.Condemn(verdict):
                    self.record.verdict = verdict
                case lifecycle.Resize(name):
                    await self.resizer.resize(self.pod, name)
                case lifecycle.StopSandbox():
                    await self._stop_sandbox()
                case lifecycle.DeleteObject():
                    await self._delete_object()
                case _:
                    pass
        except (SandboxNotFound, RuntimeLost) as error:
            if isinstance(error, RuntimeLost):
                log.warning("runtime does not answer", extra={"pod": self.uid, "error": str(error)})
            # Else the end of what we meant is on its way, or was missed: ask.
            self._context.resync()
            await self._wait(self._context.now() + 1)

    async def _create_sandbox(self) -> None:
        self.record.verdict = refusal(self.pod)
        if self.record.verdict is not None:
            self._emit("Warning", self.record.verdict.reason, self.record.verdict.message.partition(": ")[2])
            return
        try:
            state = await self._starter.sandbox(self.pod)
        except gpu.NotEnoughDevices as error:
            self.record.verdict = Verdict("UnexpectedAdmissionError", str(error))
            self._emit("Warning", self.record.verdict.reason, self.record.verdict.message)
        except SetupError as error:
            self.record.fail(error.reason, error.message, self._context.now())
            if not error.passing or self.record.failures > 1:
                for message in error.messages:
                    self._emit("Warning", error.reason, message)
        except (ApiError, TransportError) as error:
            self.record.fail(
                "FailedMount", f"objects of the pod cannot be read: {error}", self._context.now()
            )
        else:
            await self._context.join(self.pod, state.ip)
            self.record.clear_problem()
            self.record.ip = state.ip or self._context.options.host_ip

    async def _start_container(self, name: str, attempt: int) -> None:
        container = find_container(self.pod, name)
        record = self.record.container(name)
        if container is None or self.record.ip is None:
            return  # the sandbox ended since this was decided
        try:
            spec = await self._starter.container(self.pod, container, attempt, self.record.ip)
            state = await self._context.runtime.start_container(self.uid, spec)
        except ContainerError as error:
            record.fail(error.reason, error.message, self._context.now(), error.retry_at)
            self._starter.refresh()
            for event in error.events:
                self._emit(event.type, event.reason, event.message)
        except (SetupError, ApiError, TransportError) as error:
            record.fail("CreateContainerConfigError", str(error), self._context.now())
            self._starter.refresh()
            self._emit("Warning", error.reason if isinstance(error, SetupError) else "Failed", str(error))
        except OSError as error:
            text = f"{error.strerror or error}: the start is tried again"
            record.fail("CreateContainerError", text, self._context.now())
            self._starter.refresh()
            self._emit("Warning", "Failed", f"Error: {text}")
        except StartError as error:
            now = self._context.now()
            failed = ContainerState(
                name=name,
                attempt=attempt,
                pid=None,
                started_at=now,
                finished_at=now,
                exit_code=error.exit_code,
                message=error.message,
            )
            record.clear_problem()
            self.record.take_container(failed, "StartError")
            self._starter.refresh()
            self._emit("Warning", "Failed", f"Error: {error.message}")
            self._supervisor.report_backoff(name)
        else:
            record.clear_problem()
            record.actuated = section(container, "resources")
            self._supervisor.started(state)
            self._emit("Normal", "Created", f"Created container: {name}")
            self._emit("Normal", "Started", f"Started container {name}")

    async def _stop_sandbox(self) -> None:
        await self._context.runtime.stop_sandbox(self.uid)
        self.record.stopped = True
        self._release()
        await self._starter.give_back(self.pod)

    def _release(self) -> None:
        """Leave to others what the pod had of the machine."""
        self._context.cores.release(self.uid)
        self._context.shares.release(self.uid)
        self._context.allocated.pop(self.uid, None)
        self._context.attachments.let_go(self.uid)

    async def _delete_object(self) -> None:
        """Let the last status land, then delete the object; what remains to do follows its disappearance."""
        await self._writer.flush()
        try:
            if not await self._delete_very_object():
                self.record.gone = True
        except (ApiError, TransportError) as error:
            log.warning("pod not deleted", extra={"pod": self.uid, "error": str(error)})
            await self._wait(self._context.now() + 1)
            return
        self.record.deleted = True

    async def _delete_very_object(self) -> bool:
        """Return whether the API had this very pod to delete: another may have its name.

        Raises:
            ApiError: the refusal. A conflict with another write is one: nothing else would send the deletion again.
            TransportError: the API cannot be reached.
        """
        client, name, namespace = self._context.client, name_of(self.pod), namespace_of(self.pod)
        try:
            await client.delete(PODS, name, namespace, grace_period_seconds=0, uid=self.uid)
        except ApiError as error:
            if error.code == 404:
                return False
            if error.reason != "Conflict" or uid_of(await client.get(PODS, name, namespace)) == self.uid:
                raise
            return False
        return True

    async def _remove(self) -> None:
        """Leave nothing of the pod on this machine."""
        self._supervisor.stop()
        self._writer.close()
        self._context.forget(self.uid)
        self._release()
        self._flush_events()
        await remove_pod(self._context.runtime, self._context.paths, self.uid)

    def _report_once(self) -> None:
        """Tell the user what differs from a cluster: one event per reason, which a restart goes on counting."""
        if is_finished(self.pod) or self.record.ip is not None:
            return
        for kind, reason, message in cautions(self.pod, self._context):
            self._emit(kind, reason, message)

    def _emit(self, kind: str, reason: str, message: str) -> None:
        """Record an event once the status that goes with it is written."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": self.pod["metadata"]}
        self._events.append(lambda: self._context.recorder.event(pod, kind, reason, message))

    def _flush_events(self) -> None:
        events, self._events = self._events, []
        for record in events:
            record()

    def seen(self) -> SeenPod:
        """Return what is known of the pod."""
        return self.record.seen()
