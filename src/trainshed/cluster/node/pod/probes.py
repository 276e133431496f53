"""Startup, readiness and liveness probes of one running container.

    startup ──passed──▶ readiness and liveness, side by side
       └──failed──▶ the container is stopped

`judge` is the pure part: thresholds. `Prober` asks on time and tells the pod's worker when its health changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainshed.cluster.node.pod.handlers import Outcome, Target, act
from trainshed.cluster.node.pod.observed import Health
from trainshed.kube.meta.objects import Object, section

HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
EARLY_SECONDS, EARLY_PERIOD = 1.0, 0.1
"""A container that has just started is looked at this often for this long, or for its probe's period if that is
shorter: periods are whole seconds, and most servers are up within one. The looks count only when they pass."""


class Tally(msgspec.Struct, frozen=True):
    """Outcomes in a row, and what they amount to: None until a threshold is reached."""

    ok: bool | None = None
    run: int = 0
    verdict: bool | None = None


def judge(tally: Tally, ok: bool, probe: Mapping[str, Any]) -> Tally:
    """Return the tally after one more outcome."""
    run = tally.run + 1 if tally.ok is ok else 1
    threshold = probe.get("successThreshold", 1) if ok else probe.get("failureThreshold", 3)
    return Tally(ok, run, ok if run >= threshold else tally.verdict)


def initial_health(container: Object) -> Health:
    """Return the health of a container that has just started: what is not probed counts as well."""
    started = not _is_probed(container, "startupProbe")
    return Health(started=started, ready=started and not _is_probed(container, "readinessProbe"))


class Prober:
    """Probes one attempt of a container until `stop`.

    `health` is where it starts: a startup probe that passed is not asked again. `on_health` gets every
    change; `on_failure` gets (probe kind, what became of it) of every failed try. One that could not be made does
    not count: neither for the container nor against it.
    """

    def __init__(
        self,
        target: Target,
        *,
        health: Health,
        on_health: Callable[[Health], None],
        on_failure: Callable[[str, str], None],
    ) -> None:
        self.health = health
        self._target = target
        self._on_health = on_health
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; nothing runs when there is nothing to probe."""
        kinds = ("startupProbe", "readinessProbe", "livenessProbe")
        if any(_is_probed(self._target.container, kind) for kind in kinds):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        container = self._target.container
        if not self.health.started and _is_probed(container, "startupProbe"):
            async for verdict in self._verdicts("Startup", container["startupProbe"]):
                if verdict:
                    self._set(Health(started=True, ready=not _is_probed(container, "readinessProbe")))
                    break
                self._give_up("startup")
                return
        async with asyncio.TaskGroup() as group:
            if _is_probed(container, "readinessProbe"):
                group.create_task(self._watch_readiness(container["readinessProbe"]))
            if _is_probed(container, "livenessProbe"):
                group.create_task(self._watch_liveness(container["livenessProbe"]))

    async def _watch_readiness(self, probe: Mapping[str, Any]) -> None:
        async for verdict in self._verdicts("Readiness", probe):
            self._set(msgspec.structs.replace(self.health, ready=verdict))

    async def _watch_liveness(self, probe: Mapping[str, Any]) -> None:
        async for verdict in self._verdicts("Liveness", probe):
            if not verdict:
                self._give_up("liveness")
                return

    async def _verdicts(self, kind: str, probe: Mapping[str, Any]) -> Any:
        """Yield each change of the probe's verdict."""
        await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
        if kind != "Liveness" and not probe.get("exec"):
            await self._look_early(probe)
        tally = Tally()
        while True:
            outcome: Outcome = await act(self._target, probe, float(probe.get("timeoutSeconds") or 1))
            before = tally
            if outcome.errored:
                self._on_failure(kind, f"errored and resulted in unknown state: {outcome.message}")
            else:
                tally = judge(tally, outcome.ok, probe)
                if not outcome.ok:
                    self._on_failure(kind, f"failed: {outcome.message}")
            if tally.verdict is not None and tally.verdict is not before.verdict:
                yield tally.verdict
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))

    async def _look_early(self, probe: Mapping[str, Any]) -> None:
        """Return when the probe would pass, or when it is time for the first try that counts."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(EARLY_SECONDS, float(probe.get("periodSeconds") or 10))
        while loop.time() < until:
            if (await act(self._target, probe, EARLY_SECONDS)).ok:
                return
            await asyncio.sleep(EARLY_PERIOD)

    def _give_up(self, kind: str) -> None:
        name = self._target.container["name"]
        failure = f"Container {name} failed {kind} probe, will be restarted"
        self._set(msgspec.structs.replace(self.health, ready=False, failure=failure))

    def _set(self, health: Health) -> None:
        if health != self.health:
            self.health = health
            self._on_health(health)


def _is_probed(container: Object, kind: str) -> bool:
    probe = section(container, kind)
    return any(probe.get(handler) for handler in HANDLERS)
