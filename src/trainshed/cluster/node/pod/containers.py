"""Running containers of one pod: probes, lifecycle hooks, signals, and the end of each.

Everything here changes the pod's record and wakes its worker; what follows is decided in `lifecycle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainshed.cluster.node.pod.handlers import Target, run_hook
from trainshed.cluster.node.pod.lifecycle import BeginStop, backoff_seconds, is_outdated, should_restart
from trainshed.cluster.node.pod.logs import tail_text
from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.observed import SIGKILL, SIGTERM, Health, Stopping
from trainshed.cluster.node.pod.probes import Prober, initial_health
from trainshed.cluster.node.pod.record import PodRecord
from trainshed.cluster.node.pod.resizing import needed_change
from trainshed.cluster.sandbox.api import ContainerState
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.pods import CONTAINER_STATUSES, ephemeral_containers, find_container

FALLBACK_LINES, FALLBACK_BYTES = 80, 2048
"""How much of the log becomes the termination message (FallbackToLogsOnError)."""
KILLED = 128 + SIGKILL
LOOPBACK = "127.0.0.1"

Emit = Callable[[str, str, str], None]


class Supervisor:
    """The running containers of one pod. `pod` returns its newest object."""

    def __init__(
        self,
        context: NodeContext,
        record: PodRecord,
        pod: Callable[[], Object],
        *,
        wake: Callable[[], None],
        emit: Emit,
    ) -> None:
        self._context = context
        self._record = record
        self._pod = pod
        self._wake = wake
        self._emit = emit
        self._probers: dict[str, Prober] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._oom_kills: dict[str, int] = {}

    def adopt(self) -> None:
        """Take over containers that an earlier process started; their readiness is what the API remembers."""
        status = status_of(self._pod())
        written = [each for key in CONTAINER_STATUSES for each in status.get(key) or ()]
        ready = {s["name"]: bool(s.get("ready")) for s in written}
        started = {s["name"]: bool(s.get("started")) for s in written}
        for name, record in self._record.containers.items():
            newest = record.newest
            container = find_container(self._pod(), name)
            if container is None or newest is None:
                continue
            if newest.running:
                fresh = initial_health(container)
                health = Health(
                    started=fresh.started or started.get(name, False),
                    ready=fresh.ready or ready.get(name, False),
                )
                self._probe(name, container, health)
            elif newest.failed_to_start:
                record.attempts[newest.number] = msgspec.structs.replace(
                    newest, reason=newest.reason or "StartError"
                )

    def started(self, state: ContainerState) -> None:
        """Begin with a container that was just started: postStart hook, then probes."""
        record = self._record.container(state.name)
        record.stopping = None
        record.health = Health()
        self._oom_kills[state.name] = oom_kills()
        container = find_container(self._pod(), state.name) or {"name": state.name}
        attempt = self._record.take_container(state)
        record.attempts[state.attempt] = msgspec.structs.replace(attempt, image=container.get("image", ""))
        hook = section(container, "lifecycle").get("postStart")
        if hook:
            self._spawn(self._post_start(state.name, state.attempt, container, hook))
        else:
            self._probe(state.name, container, initial_health(container))

    def ended(self, state: ContainerState) -> None:
        """Take the end of a container; find out why if its exit code does not tell."""
        prober = self._probers.pop(state.name, None)
        if prober is not None:
            prober.stop()
        record = self._record.container(state.name)
        asked = record.stopping is not None and record.stopping.killed
        before = self._oom_kills.get(state.name)
        killed = state.exit_code == KILLED and not asked
        starved = killed and before is not None and oom_kills() > before
        over = state.exit_code == KILLED and state.held_bytes > 0
        reason = "OOMKilled" if starved or over else ""
        container = find_container(self._pod(), state.name) or {}
        if over:
            limit = section(container, "resources", "limits").get("memory")
            held = f"held {state.held_bytes // 1024**2}Mi, its memory limit is {limit}"
            self._emit("Warning", "OOMKilled", f"Container {state.name} was killed: it {held}")
        if (
            state.exit_code
            and not state.message
            and container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            path = self._context.paths.log(self._pod()["metadata"]["uid"], state.name, state.attempt)
            state = msgspec.structs.replace(state, message=tail_text(path, FALLBACK_LINES, FALLBACK_BYTES))
        attempt = self._record.take_container(state, reason)
        resized = needed_change(container, record.actuated) == "restart"
        if record.stopping is not None and (resized or is_outdated(container, attempt)):
            record.attempts[state.attempt] = msgspec.structs.replace(attempt, outdated=True)
        record.health = Health()
        self.report_backoff(state.name)

    def begin_stop(self, action: BeginStop) -> None:
        """Note the stop and start its preStop hook; the signal follows as a decision of its own."""
        container = find_container(self._pod(), action.name) or {}
        hook = section(container, "lifecycle").get("preStop")
        record = self._record.container(action.name)
        record.stopping = Stopping(
            attempt=action.attempt,
            since=self._context.now(),
            grace=action.grace,
            hook="running" if hook else "none",
        )
        if hook:
            self._spawn(self._pre_stop(action, container, hook))

    async def signal(self, name: str, signal: int) -> None:
        """Send a signal and note it; for SIGTERM the one that the image wants instead.

        Raises SandboxNotFound when the container does not run.
        """
        record = self._record.container(name)
        if record.stopping is not None:
            # Noted first: a container that ends while we send must not be taken for one killed by others.
            record.stopping = msgspec.structs.replace(
                record.stopping,
                terminated=record.stopping.terminated or signal == SIGTERM,
                killed=record.stopping.killed or signal == SIGKILL,
            )
        if signal == SIGTERM:
            container = find_container(self._pod(), name) or {}
            signal = self._context.images.stop_signal(container.get("image", ""))
        await self._context.runtime.signal_container(self._pod()["metadata"]["uid"], name, signal)

    def stop(self) -> None:
        """End probes and hooks; containers go on."""
        for prober in self._probers.values():
            prober.stop()
        self._probers.clear()
        for task in self._tasks:
            task.cancel()

    def _probe(self, name: str, container: Object, health: Health) -> None:
        def changed(now: Health) -> None:
            self._record.container(name).health = now
            self._wake()

        def failed(kind: str, message: str) -> None:
            self._emit("Warning", "Unhealthy", f"{kind} probe {message}")
            self._wake()

        prober = Prober(self._target(container), health=health, on_health=changed, on_failure=failed)
        old = self._probers.pop(name, None)
        if old is not None:
            old.stop()
        self._probers[name] = prober
        self._record.container(name).health = health
        prober.start()

    async def _post_start(self, name: str, attempt: int, container: Object, hook: Object) -> None:
        outcome = await run_hook(self._target(container), hook, self._grace())
        newest = self._record.container(name).newest
        if newest is None or newest.number != attempt or not newest.running:
            return
        if outcome.ok:
            self._probe(name, container, initial_health(container))
        else:
            self._emit("Warning", "FailedPostStartHook", f"PostStartHook failed: {outcome.message}")
            self._record.container(name).health = Health(failure="FailedPostStartHook")
        self._wake()

    async def _pre_stop(self, action: BeginStop, container: Object, hook: Object) -> None:
        outcome = await run_hook(self._target(container), hook, action.grace)
        if not outcome.ok:
            self._emit("Warning", "FailedPreStopHook", f"PreStopHook failed: {outcome.message}")
        record = self._record.container(action.name)
        if record.stopping is not None and record.stopping.attempt == action.attempt:
            record.stopping = msgspec.structs.replace(record.stopping, hook="done")
        self._wake()

    def report_backoff(self, name: str) -> None:
        """Tell that a container that has ended, or could not be started, is not started again at once, if so."""
        pod = self._pod()
        seen = self._record.seen().container(name)
        newest = seen.newest
        policy = pod["spec"].get("restartPolicy", "Always")
        if any(container["name"] == name for container in ephemeral_containers(pod)):
            return
        if newest is None or newest.running or pod["metadata"].get("deletionTimestamp"):
            return
        if should_restart(policy, newest) and backoff_seconds(seen.attempts) > 0:
            metadata = pod["metadata"]
            whom = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            self._emit("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {whom}")

    def _target(self, container: Object) -> Target:
        pod = self._pod()
        ip = LOOPBACK if pod["spec"].get("hostNetwork") else self._record.ip or ""
        return Target(self._context.runtime, pod["metadata"]["uid"], ip, container)

    def _grace(self) -> float:
        return float(self._pod()["spec"].get("terminationGracePeriodSeconds") or 30)

    def _spawn(self, coroutine: object) -> None:
        assert asyncio.iscoroutine(coroutine)
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot, machine-wide.

    Besides its own limit this is the only sign: a container that died of a SIGKILL that nobody here sent while
    the count rose was, as far as can be known, killed for memory.
    """
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
