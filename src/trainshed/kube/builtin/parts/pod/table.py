"""The table of pods: the STATUS column is computed, not stored.

Source: "Pod phase" and "Container states" in the Kubernetes documentation; the order of precedence is that
of `kubectl get pods` 1.33.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.objects import (
    Object,
    condition,
    is_true,
    metadata_of,
    name_of,
    section,
    spec_of,
    status_of,
)
from trainshed.kube.meta.times import time_or_none


class _Restarts(msgspec.Struct):
    """A running total, and when the last container that counts in it ended."""

    count: int = 0
    last: float = 0.0

    def add(self, container_status: Object) -> None:
        self.count += container_status.get("restartCount") or 0
        ended = section(container_status, "lastState", "terminated")
        self.last = max(self.last, time_or_none(ended.get("finishedAt")) or 0.0)

    def cell(self, now: float) -> str:
        if self.count and self.last:
            return f"{self.count} ({human(now - self.last)} ago)"
        return str(self.count)


class _Summary(msgspec.Struct):
    reason: str
    ready: int
    total: int
    restarts: _Restarts


def _exit_text(terminated: Object) -> str:
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(state: Object, index: int, total: int) -> str:
    """Return the STATUS while init container `index` of `total` is the first that has not finished."""
    terminated, waiting = state.get("terminated"), state.get("waiting")
    if terminated:
        return f"Init:{terminated.get('reason') or _exit_text(terminated)}"
    if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
        return f"Init:{waiting['reason']}"
    return f"Init:{index}/{total}"


def _summarise(pod: Object) -> _Summary:
    pod_spec, pod_status = spec_of(pod), status_of(pod)
    init_specs = pod_spec.get("initContainers") or []
    sidecars = {c.get("name") for c in init_specs if c.get("restartPolicy") == "Always"}
    out = _Summary(
        reason=pod_status.get("reason") or pod_status.get("phase") or "Unknown",
        ready=0,
        total=len(pod_spec.get("containers") or ()) + len(sidecars),
        restarts=_Restarts(),
    )
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        out.reason = "SchedulingGated"

    initializing = False
    sidecar_restarts = _Restarts()
    for index, item in enumerate(pod_status.get("initContainerStatuses") or ()):
        out.restarts.add(item)
        state = section(item, "state")
        is_sidecar = item.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts.add(item)
        if section(state, "terminated").get("exitCode") == 0:
            continue
        if is_sidecar and item.get("started"):
            out.ready += bool(item.get("ready"))
            continue
        out.reason = _init_reason(state, index, len(init_specs))
        initializing = True
        break

    if not initializing or is_true(pod, "Initialized"):
        # Init containers that are done no longer matter; sidecars restart together with the others.
        out.restarts = sidecar_restarts
        _summarise_containers(pod, out)

    if metadata_of(pod).get("deletionTimestamp"):
        if pod_status.get("reason") == "NodeLost":
            out.reason = "Unknown"
        elif pod_status.get("phase") not in ("Succeeded", "Failed"):
            out.reason = "Terminating"
    return out


def _summarise_containers(pod: Object, out: _Summary) -> None:
    """Let containers decide the reason, last to first, so that the first one has the last word."""
    has_running = False
    for item in reversed(status_of(pod).get("containerStatuses") or ()):
        out.restarts.add(item)
        state = section(item, "state")
        waiting, terminated = section(state, "waiting"), state.get("terminated")
        if waiting.get("reason"):
            out.reason = waiting["reason"]
        elif terminated is not None:
            out.reason = terminated.get("reason") or _exit_text(terminated)
        elif item.get("ready") and state.get("running") is not None:
            has_running = True
            out.ready += 1
    if out.reason == "Completed" and has_running:
        out.reason = "Running" if is_true(pod, "Ready") else "NotReady"


def _readiness_gates(pod: Object) -> str:
    gates = spec_of(pod).get("readinessGates") or ()
    if not gates:
        return NONE
    return f"{sum(is_true(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


def _cells(pod: Object, now: float) -> list[Any]:
    summary = _summarise(pod)
    addresses = status_of(pod).get("podIPs") or [{"ip": status_of(pod).get("podIP")}]
    return [
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts.cell(now),
        age(pod, now),
        addresses[0].get("ip") or NONE,
        spec_of(pod).get("nodeName") or NONE,
        status_of(pod).get("nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


_MESSAGES = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _conditions(pod: Object) -> list[Object]:
    """Return the row conditions: kubectl hides nothing by them, dashboards grey out finished pods."""
    phase = status_of(pod).get("phase")
    if phase not in _MESSAGES:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _MESSAGES[phase]}]


COLUMNS = Columns(
    define("Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"),
    _cells,
    _conditions,
)
